"""OpenMP, which is not used: threads are Talweg's own (``set_num_threads``)."""


def is_available() -> bool:
    """False."""
    return False


__all__ = ["is_available"]
