"""Pooling and windows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from ..._checked import check, value_error
from .. import functional as F
from .common import Function, shown, size, window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ... import Tensor

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d", "Fold", "FractionalMaxPool2d",
    "FractionalMaxPool3d", "LPPool1d", "LPPool2d", "LPPool3d", "MaxPool1d", "MaxPool2d", "MaxPool3d", "MaxUnpool1d",
    "MaxUnpool2d", "MaxUnpool3d", "Unfold",
]  # fmt: skip


class _Pool(Function):
    """A pooling layer of ``_rank`` dimensions: its settings are the function's arguments."""

    _rank = 0
    _names: ClassVar[tuple[str, ...]] = ("kernel_size", "stride", "padding")  # that ``repr`` shows
    _least: ClassVar[dict[str, int]] = {"kernel_size": 1, "stride": 1, "padding": 0, "dilation": 1}  # of checked sizes

    def _set(self, settings: dict[str, Any]) -> None:
        for name, least in self._least.items():
            if name in settings:
                window(self, name, settings[name], self._rank, least)
        super()._set(settings)

    def forward(self, input: Tensor) -> Any:
        return self._of(input)

    def extra_repr(self) -> str:
        return shown(**{n: getattr(self, n) for n in self._names})


class _Strided(_Pool):
    """Windows side by side, unless a stride is given."""

    def _set(self, settings: dict[str, Any]) -> None:
        if settings["stride"] is None:
            settings["stride"] = settings["kernel_size"]
        super()._set(settings)


class _MaxPool(_Strided, of=None):
    kernel_size: int | Sequence[int]
    stride: int | Sequence[int] | None = None
    padding: int | Sequence[int] = 0
    dilation: int | Sequence[int] = 1
    return_indices: bool = False
    ceil_mode: bool = False

    _names = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")


class MaxPool1d(_MaxPool, of=F.max_pool1d):
    """The largest element of each window; with ``return_indices`` also its index."""

    _rank = 1


class MaxPool2d(_MaxPool, of=F.max_pool2d):
    """The largest element of each window; with ``return_indices`` also its index."""

    _rank = 2


class MaxPool3d(_MaxPool, of=F.max_pool3d):
    """The largest element of each window; with ``return_indices`` also its index."""

    _rank = 3


class _MaxUnpool(_Strided, of=None):
    kernel_size: int | Sequence[int]
    stride: int | Sequence[int] | None = None
    padding: int | Sequence[int] = 0

    def forward(  # type: ignore[override]
        self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None
    ) -> Tensor:
        return type(self)._function(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool1d(_MaxUnpool, of=F.max_unpool1d):
    """Elements back at the indices that ``MaxPool`` with ``return_indices`` returned."""

    _rank = 1


class MaxUnpool2d(_MaxUnpool, of=F.max_unpool2d):
    """Elements back at the indices that ``MaxPool`` with ``return_indices`` returned."""

    _rank = 2


class MaxUnpool3d(_MaxUnpool, of=F.max_unpool3d):
    """Elements back at the indices that ``MaxPool`` with ``return_indices`` returned."""

    _rank = 3


class _AvgPool(_Strided, of=None):
    kernel_size: int | Sequence[int]
    stride: int | Sequence[int] | None = None
    padding: int | Sequence[int] = 0
    ceil_mode: bool = False
    count_include_pad: bool = True


class AvgPool1d(_AvgPool, of=F.avg_pool1d):
    """The mean of each window."""

    _rank = 1

    def _set(self, settings: dict[str, Any]) -> None:
        for name in ("kernel_size", "stride", "padding"):
            if isinstance(settings[name], int):
                settings[name] = (settings[name],)
        super()._set(settings)


class AvgPool2d(_AvgPool, of=F.avg_pool2d):
    """The mean of each window."""

    divisor_override: int | None = None
    _rank = 2


class AvgPool3d(_AvgPool, of=F.avg_pool3d):
    """The mean of each window."""

    divisor_override: int | None = None
    _rank = 3


class _LPPool(_Pool, of=None):
    norm_type: float
    kernel_size: int | Sequence[int]
    stride: int | Sequence[int] | None = None
    ceil_mode: bool = False

    _names = ("norm_type", "kernel_size", "stride", "ceil_mode")
    _least = {"kernel_size": 1}


class LPPool1d(_LPPool, of=F.lp_pool1d):
    """The p-th root of the sum of p-th powers of each window."""

    _rank = 1


class LPPool2d(_LPPool, of=F.lp_pool2d):
    """The p-th root of the sum of p-th powers of each window."""

    _rank = 2


class LPPool3d(_LPPool, of=F.lp_pool3d):
    """The p-th root of the sum of p-th powers of each window."""

    _rank = 3


class _FractionalMaxPool(_Pool, of=None):
    kernel_size: int | Sequence[int]
    output_size: int | Sequence[int] | None = None
    output_ratio: float | Sequence[float] | None = None
    return_indices: bool = False
    _random_samples: Tensor | None = None

    _names = ("kernel_size", "output_size", "output_ratio", "return_indices")
    _least = {"kernel_size": 1}

    def _set(self, settings: dict[str, Any]) -> None:
        if (settings["output_size"] is None) == (settings["output_ratio"] is None):
            raise value_error(f"{type(self).__name__}: give output_size or output_ratio")
        super()._set(settings)


class FractionalMaxPool2d(_FractionalMaxPool, of=F.fractional_max_pool2d):
    """The largest element of windows at random positions."""

    _rank = 2


class FractionalMaxPool3d(_FractionalMaxPool, of=F.fractional_max_pool3d):
    """The largest element of windows at random positions."""

    _rank = 3


class _Adaptive(_Pool, of=None):
    output_size: int | Sequence[int | None] | None

    def _set(self, settings: dict[str, Any]) -> None:
        sizes = settings["output_size"]
        sizes = tuple(sizes) if isinstance(sizes, (tuple, list)) else (sizes,) * self._rank
        if len(sizes) != self._rank:
            raise value_error(f"{type(self).__name__}: output_size has {len(sizes)} sizes, not {self._rank}")
        for n in sizes:
            if n is not None:
                size(self, "output_size", n)
        super()._set(settings)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_Adaptive, of=F.adaptive_avg_pool1d):
    """Means of as many windows as asked for."""

    _rank = 1


class AdaptiveAvgPool2d(_Adaptive, of=F.adaptive_avg_pool2d):
    """Means of as many windows as asked for."""

    _rank = 2


class AdaptiveAvgPool3d(_Adaptive, of=F.adaptive_avg_pool3d):
    """Means of as many windows as asked for."""

    _rank = 3


class _AdaptiveMaxPool(_Adaptive, of=None):
    return_indices: bool = False


class AdaptiveMaxPool1d(_AdaptiveMaxPool, of=F.adaptive_max_pool1d):
    """The largest elements of as many windows as asked for."""

    _rank = 1


class AdaptiveMaxPool2d(_AdaptiveMaxPool, of=F.adaptive_max_pool2d):
    """The largest elements of as many windows as asked for."""

    _rank = 2


class AdaptiveMaxPool3d(_AdaptiveMaxPool, of=F.adaptive_max_pool3d):
    """The largest elements of as many windows as asked for."""

    _rank = 3


class Unfold(_Pool, of=F.unfold):
    """Windows of images as columns.

    >>> tw.nn.Unfold(2, stride=2)(tw.ones(1, 3, 4, 4)).shape
    talweg.Size([1, 12, 4])
    """

    kernel_size: int | Sequence[int]
    dilation: int | Sequence[int] = 1
    padding: int | str | Sequence[int] = 0
    stride: int | Sequence[int] | None = 1

    _rank = 2
    _names = ("kernel_size", "dilation", "padding", "stride")
    _least = {"kernel_size": 1, "dilation": 1}


class Fold(_Pool, of=F.fold):
    """Columns added up to images.

    >>> tw.nn.Fold((4, 4), 2, stride=2)(tw.ones(1, 12, 4)).shape
    talweg.Size([1, 3, 4, 4])
    """

    output_size: int | Sequence[int]
    kernel_size: int | Sequence[int]
    dilation: int | Sequence[int] = 1
    padding: int | str | Sequence[int] = 0
    stride: int | Sequence[int] | None = 1

    _rank = 2
    _names = ("output_size", "kernel_size", "dilation", "padding", "stride")
    _least = {"output_size": 0, "kernel_size": 1}


check(globals(), __all__)
