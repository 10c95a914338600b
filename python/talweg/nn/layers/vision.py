"""Padding and upsampling as modules."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._checked import check, value_error
from .. import functional as F
from ..module import Module
from .common import shown

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ... import Tensor

__all__ = [
    "CircularPad1d", "CircularPad2d", "CircularPad3d", "ConstantPad1d", "ConstantPad2d", "ConstantPad3d",
    "ReflectionPad1d", "ReflectionPad2d", "ReflectionPad3d", "ReplicationPad1d", "ReplicationPad2d",
    "ReplicationPad3d", "Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d", "ZeroPad1d", "ZeroPad2d",
    "ZeroPad3d",
]  # fmt: skip


class _Pad(Module):
    _rank, _how = 0, ""

    def __init__(self, padding: int | str | Sequence[int]) -> None:
        super().__init__()
        self._keep(padding)

    def _keep(self, padding):
        widths = tuple(padding) if isinstance(padding, (tuple, list)) else (padding,) * (2 * self._rank)
        if len(widths) != 2 * self._rank:
            raise value_error(f"{type(self).__name__}: padding has {len(widths)} widths, not {2 * self._rank}")
        self.padding = widths

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self._how)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPad(_Pad):
    def __init__(self, padding: int | str | Sequence[int], value: Any) -> None:
        Module.__init__(self)
        self._keep(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPad):
    """Pads the last dimension with a constant."""

    _rank, _how = 1, "constant"


class ConstantPad2d(_ConstantPad):
    """Pads the last 2 dimensions with a constant."""

    _rank, _how = 2, "constant"


class ConstantPad3d(_ConstantPad):
    """Pads the last 3 dimensions with a constant."""

    _rank, _how = 3, "constant"


class ZeroPad1d(_Pad):
    """Pads the last dimension with zeros."""

    _rank, _how = 1, "constant"


class ZeroPad2d(_Pad):
    """Pads the last 2 dimensions with zeros."""

    _rank, _how = 2, "constant"


class ZeroPad3d(_Pad):
    """Pads the last 3 dimensions with zeros."""

    _rank, _how = 3, "constant"


class ReflectionPad1d(_Pad):
    """Pads the last dimension by reflection."""

    _rank, _how = 1, "reflect"


class ReflectionPad2d(_Pad):
    """Pads the last 2 dimensions by reflection."""

    _rank, _how = 2, "reflect"


class ReflectionPad3d(_Pad):
    """Pads the last 3 dimensions by reflection."""

    _rank, _how = 3, "reflect"


class ReplicationPad1d(_Pad):
    """Pads the last dimension with the edge value."""

    _rank, _how = 1, "replicate"


class ReplicationPad2d(_Pad):
    """Pads the last 2 dimensions with the edge values."""

    _rank, _how = 2, "replicate"


class ReplicationPad3d(_Pad):
    """Pads the last 3 dimensions with the edge values."""

    _rank, _how = 3, "replicate"


class CircularPad1d(_Pad):
    """Pads the last dimension circularly."""

    _rank, _how = 1, "circular"


class CircularPad2d(_Pad):
    """Pads the last 2 dimensions circularly."""

    _rank, _how = 2, "circular"


class CircularPad3d(_Pad):
    """Pads the last 3 dimensions circularly."""

    _rank, _how = 3, "circular"


class Upsample(Module):
    """Resized images: to ``size``, or by ``scale_factor``.

    >>> tw.nn.Upsample(scale_factor=2)(tw.ones(1, 1, 2, 2)).shape
    talweg.Size([1, 1, 4, 4])
    """

    def __init__(
        self, size: int | Sequence[int] | None = None, scale_factor: Any = None, mode: str = "nearest",
        align_corners: bool | None = None, recompute_scale_factor: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        many = isinstance(scale_factor, (tuple, list))
        factor = tuple(map(float, scale_factor)) if many else None if scale_factor is None else float(scale_factor)
        self.size, self.scale_factor, self.mode = size, factor, mode
        self.align_corners, self.recompute_scale_factor = align_corners, recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        settings = (self.size, self.scale_factor, self.mode, self.align_corners, self.recompute_scale_factor)
        return F.interpolate(input, *settings)

    def extra_repr(self) -> str:
        which = dict(size=self.size) if self.scale_factor is None else dict(scale_factor=self.scale_factor)
        return shown(**which, mode=self.mode)


class UpsamplingNearest2d(Upsample):
    """``Upsample(mode="nearest")``."""

    def __init__(self, size: int | Sequence[int] | None = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, "nearest")


class UpsamplingBilinear2d(Upsample):
    """``Upsample(mode="bilinear", align_corners=True)``."""

    def __init__(self, size: int | Sequence[int] | None = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, "bilinear", True)


check(globals(), __all__)
