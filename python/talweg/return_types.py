"""The named tuples that functions with several results return, as ``torch.return_types`` has them.

>>> tw.max(tw.tensor([[1.0, 3.0]]), 1).indices
tensor([1])
"""

from collections import namedtuple

__all__ = [
    "aminmax", "cummax", "cummin", "kthvalue", "max", "median", "min", "mode", "nanmedian", "sort", "topk",
]  # fmt: skip

for _name in __all__:
    globals()[_name] = namedtuple(_name, ["min", "max"] if _name == "aminmax" else ["values", "indices"], module=__name__)
