"""ATen, PyTorch's operators, in Talweg's ops: what `torch.compile` and files of `torch.export` are made of.

`table` has core operators, `networks` those with statistics beside their result, `whole` those that PyTorch would
decompose, such as layers. Nothing here needs PyTorch.
"""

from . import networks, whole  # noqa: F401  (their rows)
from .table import RANDOM as RANDOM
from .table import ROWS as ROWS
from .table import Unsupported as Unsupported
from .table import dense_order as dense_order
