"""Pooling and windows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..._checked import check, value_error
from .. import functional as F
from ..module import Module
from .common import shown, size, window

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ... import Tensor

__all__ = [
    "AdaptiveAvgPool1d", "AdaptiveAvgPool2d", "AdaptiveAvgPool3d", "AdaptiveMaxPool1d", "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d", "AvgPool1d", "AvgPool2d", "AvgPool3d", "Fold", "FractionalMaxPool2d",
    "FractionalMaxPool3d", "LPPool1d", "LPPool2d", "LPPool3d", "MaxPool1d", "MaxPool2d", "MaxPool3d", "MaxUnpool1d",
    "MaxUnpool2d", "MaxUnpool3d", "Unfold",
]  # fmt: skip


class _Pool(Module):
    """A pooling layer of ``_rank`` dimensions: its settings are the function's arguments."""

    _rank = 0
    _function = ""
    _names: tuple[str, ...] = ()

    def _pool(self, *args: Any) -> Any:
        return getattr(F, f"{self._function}{self._rank}d")(*args)

    def _checked(self, **windows: Any) -> None:
        for name, value in windows.items():
            window(self, name, value, self._rank, 0 if name == "padding" else 1)

    def extra_repr(self) -> str:
        return shown(**{n: getattr(self, n) for n in self._names})


class _MaxPool(_Pool):
    _function = "max_pool"
    _names = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")

    def __init__(
        self,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        padding: int | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self._checked(kernel_size=kernel_size, stride=self.stride, padding=padding, dilation=dilation)
        self.padding, self.dilation, self.return_indices, self.ceil_mode = padding, dilation, return_indices, ceil_mode

    def forward(self, input: Tensor) -> Any:
        settings = (self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices)
        return self._pool(input, *settings)


class MaxPool1d(_MaxPool):
    """The largest element of each window; with ``return_indices`` also its index."""

    _rank = 1


class MaxPool2d(_MaxPool):
    """The largest element of each window; with ``return_indices`` also its index."""

    _rank = 2


class MaxPool3d(_MaxPool):
    """The largest element of each window; with ``return_indices`` also its index."""

    _rank = 3


class _MaxUnpool(_Pool):
    _function = "max_unpool"
    _names = ("kernel_size", "stride", "padding")

    def __init__(
        self, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | Sequence[int] = 0
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride, self.padding = kernel_size, kernel_size if stride is None else stride, padding
        self._checked(kernel_size=kernel_size, stride=self.stride, padding=padding)

    def forward(self, input: Tensor, indices: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        return self._pool(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool1d(_MaxUnpool):
    """Elements back at the indices that ``MaxPool`` with ``return_indices`` returned."""

    _rank = 1


class MaxUnpool2d(_MaxUnpool):
    """Elements back at the indices that ``MaxPool`` with ``return_indices`` returned."""

    _rank = 2


class MaxUnpool3d(_MaxUnpool):
    """Elements back at the indices that ``MaxPool`` with ``return_indices`` returned."""

    _rank = 3


class _AvgPool(_Pool):
    _function = "avg_pool"
    _names = ("kernel_size", "stride", "padding")

    def __init__(
        self,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        padding: int | Sequence[int] = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self._checked(kernel_size=kernel_size, stride=self.stride, padding=padding)
        self.padding, self.ceil_mode, self.count_include_pad = padding, ceil_mode, count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        divisor = () if self._rank == 1 else (self.divisor_override,)
        return self._pool(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad, *divisor)


class AvgPool1d(_AvgPool):
    """The mean of each window."""

    _rank = 1

    def __init__(
        self,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        padding: int | Sequence[int] = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        stride = kernel_size if stride is None else stride
        sizes = [(n,) if isinstance(n, int) else n for n in (kernel_size, stride, padding)]
        super().__init__(*sizes, ceil_mode, count_include_pad)
        del self.divisor_override


class AvgPool2d(_AvgPool):
    """The mean of each window."""

    _rank = 2


class AvgPool3d(_AvgPool):
    """The mean of each window."""

    _rank = 3


class _LPPool(_Pool):
    _function = "lp_pool"
    _names = ("norm_type", "kernel_size", "stride", "ceil_mode")

    def __init__(
        self,
        norm_type: float,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] | None = None,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self._checked(kernel_size=kernel_size)
        self.norm_type, self.kernel_size, self.stride, self.ceil_mode = norm_type, kernel_size, stride, ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        return self._pool(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class LPPool1d(_LPPool):
    """The p-th root of the sum of p-th powers of each window."""

    _rank = 1


class LPPool2d(_LPPool):
    """The p-th root of the sum of p-th powers of each window."""

    _rank = 2


class LPPool3d(_LPPool):
    """The p-th root of the sum of p-th powers of each window."""

    _rank = 3


class _FractionalMaxPool(_Pool):
    _function = "fractional_max_pool"
    _names = ("kernel_size", "output_size", "output_ratio", "return_indices")

    def __init__(
        self,
        kernel_size: int | Sequence[int],
        output_size: int | Sequence[int] | None = None,
        output_ratio: float | Sequence[float] | None = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        self._checked(kernel_size=kernel_size)
        if (output_size is None) == (output_ratio is None):
            raise value_error(f"{type(self).__name__}: give output_size or output_ratio")
        self.kernel_size, self.output_size, self.output_ratio = kernel_size, output_size, output_ratio
        self.return_indices, self._random_samples = return_indices, _random_samples

    def forward(self, input: Tensor) -> Any:
        settings = (self.output_size, self.output_ratio, self.return_indices, self._random_samples)
        return self._pool(input, self.kernel_size, *settings)


class FractionalMaxPool2d(_FractionalMaxPool):
    """The largest element of windows at random positions."""

    _rank = 2


class FractionalMaxPool3d(_FractionalMaxPool):
    """The largest element of windows at random positions."""

    _rank = 3


class _Adaptive(_Pool):
    _names = ("output_size",)

    def _keep(self, output_size: Any) -> None:
        values = tuple(output_size) if isinstance(output_size, (tuple, list)) else (output_size,) * self._rank
        if len(values) != self._rank:
            raise value_error(f"{type(self).__name__}: output_size has {len(values)} sizes, not {self._rank}")
        for v in values:
            if v is not None:
                size(self, "output_size", v)
        self.output_size = output_size

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class _AdaptiveAvgPool(_Adaptive):
    _function = "adaptive_avg_pool"

    def __init__(self, output_size: int | Sequence[int | None] | None) -> None:
        super().__init__()
        self._keep(output_size)

    def forward(self, input: Tensor) -> Tensor:
        return self._pool(input, self.output_size)


class AdaptiveAvgPool1d(_AdaptiveAvgPool):
    """Means of as many windows as asked for."""

    _rank = 1


class AdaptiveAvgPool2d(_AdaptiveAvgPool):
    """Means of as many windows as asked for."""

    _rank = 2


class AdaptiveAvgPool3d(_AdaptiveAvgPool):
    """Means of as many windows as asked for."""

    _rank = 3


class _AdaptiveMaxPool(_Adaptive):
    _function = "adaptive_max_pool"

    def __init__(self, output_size: int | Sequence[int | None] | None, return_indices: bool = False) -> None:
        super().__init__()
        self._keep(output_size)
        self.return_indices = return_indices

    def forward(self, input: Tensor) -> Any:
        return self._pool(input, self.output_size, self.return_indices)


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """The largest elements of as many windows as asked for."""

    _rank = 1


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """The largest elements of as many windows as asked for."""

    _rank = 2


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """The largest elements of as many windows as asked for."""

    _rank = 3


class Unfold(_Pool):
    """Windows of images as columns.

    >>> import talweg as tw
    >>> tw.nn.Unfold(2, stride=2)(tw.ones(1, 3, 4, 4)).shape
    talweg.Size([1, 12, 4])
    """

    _names = ("kernel_size", "dilation", "padding", "stride")

    def __init__(self, kernel_size: int | Sequence[int], dilation: int | Sequence[int] = 1, padding: int | str | Sequence[int] = 0, stride: int | Sequence[int] | None = 1) -> None:
        super().__init__()
        window(self, "kernel_size", kernel_size, 2, 1), window(self, "dilation", dilation, 2, 1)
        self.kernel_size, self.dilation, self.padding, self.stride = kernel_size, dilation, padding, stride

    def forward(self, input: Tensor) -> Tensor:
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)


class Fold(_Pool):
    """Columns added up to images.

    >>> import talweg as tw
    >>> tw.nn.Fold((4, 4), 2, stride=2)(tw.ones(1, 12, 4)).shape
    talweg.Size([1, 3, 4, 4])
    """

    _names = ("output_size", "kernel_size", "dilation", "padding", "stride")

    def __init__(self, output_size: int | Sequence[int], kernel_size: int | Sequence[int], dilation: int | Sequence[int] = 1, padding: int | str | Sequence[int] = 0, stride: int | Sequence[int] | None = 1) -> None:
        super().__init__()
        window(self, "output_size", output_size, 2), window(self, "kernel_size", kernel_size, 2, 1)
        self.output_size, self.kernel_size = output_size, kernel_size
        self.dilation, self.padding, self.stride = dilation, padding, stride

    def forward(self, input: Tensor) -> Tensor:
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)


check(globals(), __all__)
