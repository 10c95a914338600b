"""The rows of the op table as functions, as the native module has them: what the package's own code calls.

Names, arguments and results are those of the table (docs/ops.md). PyTorch's spelling of them is in `_functions`, the
array API's in `array_api`.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any: ...

else:
    from ._native import OPS, Tensor

    # Taken before `_functions` gives `Tensor` PyTorch's methods.
    globals().update({name: getattr(Tensor, name) for name in OPS})
    globals().update({name: getattr(Tensor, name) for name in ("amax", "amin", "expand", "interpolate", "pad", "permute")})
    globals().update({name: getattr(Tensor, name) for name in ("repeat", "reshape", "t", "unique")})
