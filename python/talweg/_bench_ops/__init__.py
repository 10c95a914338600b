"""``talweg bench ops``: the time of every operator beside PyTorch's."""
