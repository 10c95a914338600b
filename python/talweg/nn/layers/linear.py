"""Linear layers, and layers that only reshape."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import _native
from ..._checked import check, type_error
from .. import functional as F
from ..module import Module
from ..parameter import UninitializedParameter
from .common import Described, placed, shown, size

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ... import DTypeLike, Tensor

__all__ = ["Bilinear", "Flatten", "Identity", "LazyLinear", "Linear", "QuantizedLinear", "Unflatten"]


class Identity(Module):
    """The identity; arguments are accepted and ignored, as in PyTorch.

    >>> tw.nn.Identity(54, unused=0.1)(tw.ones(2)).tolist()
    [1.0, 1.0]
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Any:
        return input


class Linear(Described):
    """y = x Wᵀ + b on the last dimension.

    >>> tw.nn.Linear(4, 2)(tw.ones(3, 4)).shape
    talweg.Size([3, 2])
    """

    _row = "Linear"

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.in_features = size(self, "in_features", in_features)
        self.out_features = size(self, "out_features", out_features)
        self._make_parameters(in_features=self.in_features, out_features=self.out_features, bias=bool(bias))
        placed(self, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return shown(in_features=self.in_features, out_features=self.out_features, bias=self.bias is not None)


class LazyModule(Module):
    """A module whose parameters get their shapes from the first input; then it is of class ``cls_to_become``."""

    cls_to_become = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.has_uninitialized_params():
            self.initialize_parameters(*args, **kwargs)
            placed(self, *self.__dict__.pop("_place"))
        self.__class__ = self.cls_to_become
        return self(*args, **kwargs)

    def has_uninitialized_params(self) -> Tensor:
        """True before the first call."""
        return any(isinstance(p, UninitializedParameter) for p in self.parameters(recurse=False))


class LazyLinear(LazyModule, Linear):
    """A ``Linear`` whose ``in_features`` are those of its first input.

    >>> layer = tw.nn.LazyLinear(3)
    >>> layer(tw.ones(2, 5)).shape, layer
    (talweg.Size([2, 3]), Linear(in_features=5, out_features=3, bias=True))
    """

    cls_to_become = Linear

    def __init__(self, out_features: int, bias: bool = True, device: str | None = None, dtype: DTypeLike | None = None) -> None:
        Module.__init__(self)
        self.in_features, self.out_features = 0, size(self, "out_features", out_features)
        self.weight = UninitializedParameter()
        self.register_parameter("bias", UninitializedParameter() if bias else None)
        self.__dict__["_place"] = (device, dtype)

    def initialize_parameters(self, input: Tensor) -> None:
        """Makes the parameters for an input."""
        self.in_features = input.shape[-1]
        has_bias = self.bias is not None
        self._make_parameters(in_features=self.in_features, out_features=self.out_features, bias=has_bias)


class QuantizedLinear(Module):
    """A trained ``Linear`` with a weight of 8-bit integers and a scale for each output, for inference: a quarter of
    the memory, and on processors that multiply bytes several times as fast. Each row of x is quantized as it comes.

    >>> tw.nn.QuantizedLinear(tw.nn.Linear(4, 2))(tw.ones(3, 4)).shape
    talweg.Size([3, 2])
    """

    def __init__(self, linear: Linear) -> None:
        super().__init__()
        if not isinstance(linear, Linear):
            raise type_error(f"QuantizedLinear: expected a Linear, not {type(linear).__name__}")
        weight, scale = linear.weight.detach().quantize(-1)
        self.register_buffer("weight", weight)
        self.register_buffer("scale", scale)
        self.register_buffer("bias", None if linear.bias is None else linear.bias.detach())

    def forward(self, x: Tensor) -> Tensor:
        return x.quantized_linear(self.weight, self.scale, self.bias)


class Bilinear(Described):
    """y = x₁ᵀ W x₂ + b.

    >>> tw.nn.Bilinear(3, 4, 2)(tw.ones(5, 3), tw.ones(5, 4)).shape
    talweg.Size([5, 2])
    """

    _row = "Bilinear"

    def __init__(
        self, in1_features: int, in2_features: int, out_features: int, bias: bool = True, device: str | None = None,
        dtype: DTypeLike | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.in1_features, self.in2_features = size(self, "in1_features", in1_features, 1), size(self, "in2_features", in2_features)
        self.out_features = size(self, "out_features", out_features)
        sizes = dict(in1_features=self.in1_features, in2_features=self.in2_features, out_features=self.out_features)
        self._make_parameters(**sizes, bias=bool(bias))
        placed(self, device, dtype)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        sizes = dict(in1_features=self.in1_features, in2_features=self.in2_features, out_features=self.out_features)
        return shown(**sizes, bias=self.bias is not None)


class Flatten(Module):
    """Several dimensions as one.

    >>> tw.nn.Flatten()(tw.ones(2, 3, 4)).shape
    talweg.Size([2, 12])
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Tensor:
        x = input if isinstance(input, _native.Tensor) else _native.tensor(input)
        return x.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return shown(start_dim=self.start_dim, end_dim=self.end_dim)


class Unflatten(Module):
    """One dimension as several.

    >>> tw.nn.Unflatten(1, (2, 3))(tw.ones(4, 6)).shape
    talweg.Size([4, 2, 3])
    """

    def __init__(self, dim: int | None, unflattened_size: Sequence[int]) -> None:
        super().__init__()
        if not isinstance(dim, int):
            raise type_error("Unflatten: dimensions have no names: dim is an integer")
        self.dim, self.unflattened_size = dim, tuple(unflattened_size)

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return shown(dim=self.dim, unflattened_size=self.unflattened_size)


check(globals(), __all__)
