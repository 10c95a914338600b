"""Convolutions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._checked import check, type_error, value_error
from .. import functional as F
from ..module import Module
from ..parameter import UninitializedParameter
from .common import Described, placed, size, window
from .linear import LazyModule

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ... import DTypeLike, Tensor

__all__ = [
    "Conv1d", "Conv2d", "Conv3d", "ConvTranspose1d", "ConvTranspose2d", "ConvTranspose3d", "LazyConv1d",
    "LazyConv2d", "LazyConv3d", "LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d",
]  # fmt: skip


class _ConvNd(Described):
    """A convolution of ``_rank`` dimensions."""

    _rank = 0
    _is_transposed = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: int | str | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        super().__init__()
        self._settings(in_channels, out_channels, kernel_size, stride, padding, dilation, 0, groups, padding_mode)
        self._make(bias)
        placed(self, device, dtype)

    def _settings(self, in_channels, out_channels, kernel_size, stride, padding, dilation, output_padding, groups, padding_mode):
        name, n = type(self).__name__, self._rank
        self.groups = size(self, "groups", groups, 1)
        self.in_channels, self.out_channels = size(self, "in_channels", in_channels), size(self, "out_channels", out_channels)
        if self.in_channels % self.groups or self.out_channels % self.groups:
            raise value_error(f"{name}: {groups} groups do not divide {in_channels} inputs and {out_channels} outputs")
        self.kernel_size = window(self, "kernel_size", kernel_size, n, 1)
        self.stride, self.dilation = window(self, "stride", stride, n, 1), window(self, "dilation", dilation, n, 1)
        if isinstance(padding, str):
            if padding not in ("valid", "same"):
                raise value_error(f"{name}: padding is a size, 'valid' or 'same', not {padding!r}")
            if padding == "same" and any(s != 1 for s in self.stride):
                raise value_error(f"{name}: padding='same' needs stride 1")
            self.padding = padding
        else:
            self.padding = window(self, "padding", padding, n)
        self.output_padding = window(self, "output_padding", output_padding, n)
        if padding_mode not in ("zeros", "reflect", "replicate", "circular"):
            raise value_error(f"{name}: padding_mode is 'zeros', 'reflect', 'replicate' or 'circular', not {padding_mode!r}")
        self.padding_mode = padding_mode

    def _make(self, bias):
        sizes = dict(in_channels=self.in_channels, out_channels=self.out_channels, kernel_size=self.kernel_size)
        self._make_parameters(**sizes, groups=self.groups, bias=bool(bias))

    def _widths(self):
        """Padding of each edge, last dimension first."""
        if self.padding == "same":
            totals = [d * (k - 1) for d, k in zip(self.dilation, self.kernel_size)]
            pairs = [(t // 2, t - t // 2) for t in totals]
        else:
            pairs = [(p, p) for p in ((0,) * self._rank if self.padding == "valid" else self.padding)]
        return [w for pair in reversed(pairs) for w in pair]

    def forward(self, input: Tensor) -> Tensor:
        padding = self.padding
        if self.padding_mode != "zeros":
            input, padding = F.pad(input, self._widths(), self.padding_mode), 0
        conv = getattr(F, f"conv{self._rank}d")
        return conv(input, self.weight, self.bias, self.stride, padding, self.dilation, self.groups)

    def extra_repr(self) -> str:
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        if self.padding != (0,) * self._rank:
            text += f", padding={self.padding}"
        if self.dilation != (1,) * self._rank:
            text += f", dilation={self.dilation}"
        if self.output_padding != (0,) * self._rank:
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        return text if self.padding_mode == "zeros" else text + f", padding_mode={self.padding_mode}"


class Conv1d(_ConvNd):
    """Convolution of signals ``[N, C, L]``."""

    _rank, _row = 1, "Conv1d"


class Conv2d(_ConvNd):
    """Convolution of images ``[N, C, H, W]``."""

    _rank, _row = 2, "Conv2d"


class Conv3d(_ConvNd):
    """Convolution of volumes ``[N, C, D, H, W]``."""

    _rank, _row = 3, "Conv3d"


class _ConvTransposeNd(_ConvNd):
    _is_transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        output_padding: int | Sequence[int] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | Sequence[int] = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        Module.__init__(self)
        name = type(self).__name__
        if padding_mode != "zeros":
            raise value_error(f"{name}: padding_mode is 'zeros' for transposed convolutions, not {padding_mode!r}")
        if isinstance(padding, str):
            raise type_error(f"{name}: padding is a size, not {padding!r}")
        self._settings(in_channels, out_channels, kernel_size, stride, padding, dilation, output_padding, groups, "zeros")
        self._make(bias)
        placed(self, device, dtype)

    def forward(self, input: Tensor, output_size: int | Sequence[int] | None = None) -> Tensor:
        """With ``output_size``, the output padding is what makes the result so large."""
        extra = self.output_padding if output_size is None else self._output_padding(input, output_size)
        conv = getattr(F, f"conv_transpose{self._rank}d")
        return conv(input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation)

    def _output_padding(self, input, output_size):
        n = self._rank
        wanted = tuple(output_size)[-n:]
        places = zip(input.shape[-n:], self.stride, self.padding, self.dilation, self.kernel_size)
        least = [(s - 1) * t - 2 * p + d * (k - 1) + 1 for s, t, p, d, k in places]
        extra = tuple(w - m for w, m in zip(wanted, least))
        if any(not 0 <= e < t for e, t in zip(extra, self.stride)):
            raise value_error(f"{type(self).__name__}: output_size {wanted} is not between {tuple(least)} and the next stride")
        return extra


class ConvTranspose1d(_ConvTransposeNd):
    """Transposed convolution of signals."""

    _rank, _row = 1, "ConvTranspose1d"


class ConvTranspose2d(_ConvTransposeNd):
    """Transposed convolution of images."""

    _rank, _row = 2, "ConvTranspose2d"


class ConvTranspose3d(_ConvTransposeNd):
    """Transposed convolution of volumes."""

    _rank, _row = 3, "ConvTranspose3d"


class _LazyConv(LazyModule):
    def _lazy(self, settings, bias, device, dtype):
        Module.__init__(self)
        groups = settings[-2]
        self._settings(groups if isinstance(groups, int) else 1, *settings)
        self.in_channels = 0
        self.weight = UninitializedParameter()
        self.register_parameter("bias", UninitializedParameter() if bias else None)
        self.__dict__["_place"] = (device, dtype)

    def initialize_parameters(self, input: Tensor, *_args: Any, **_kwargs: Any) -> None:
        """Makes the parameters for an input."""
        self.in_channels = input.shape[input.ndim - self._rank - 1]
        self._make(self.bias is not None)


class _LazyConvNd(_LazyConv):
    def __init__(  # type: ignore[override]
        self,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: int | str | Sequence[int] = 0,
        dilation: int | Sequence[int] = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        settings = (out_channels, kernel_size, stride, padding, dilation, 0, groups, padding_mode)
        self._lazy(settings, bias, device, dtype)


class _LazyConvTransposeNd(_LazyConv):
    def __init__(  # type: ignore[override]
        self,
        out_channels: int,
        kernel_size: int | Sequence[int],
        stride: int | Sequence[int] = 1,
        padding: int | Sequence[int] = 0,
        output_padding: int | Sequence[int] = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: int | Sequence[int] = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: DTypeLike | None = None,
    ) -> None:
        settings = (out_channels, kernel_size, stride, padding, dilation, output_padding, groups, padding_mode)
        self._lazy(settings, bias, device, dtype)


class LazyConv1d(_LazyConvNd, Conv1d):
    """A ``Conv1d`` whose ``in_channels`` are those of its first input."""

    cls_to_become = Conv1d


class LazyConv2d(_LazyConvNd, Conv2d):
    """A ``Conv2d`` whose ``in_channels`` are those of its first input."""

    cls_to_become = Conv2d


class LazyConv3d(_LazyConvNd, Conv3d):
    """A ``Conv3d`` whose ``in_channels`` are those of its first input."""

    cls_to_become = Conv3d


class LazyConvTranspose1d(_LazyConvTransposeNd, ConvTranspose1d):
    """A ``ConvTranspose1d`` whose ``in_channels`` are those of its first input."""

    cls_to_become = ConvTranspose1d


class LazyConvTranspose2d(_LazyConvTransposeNd, ConvTranspose2d):
    """A ``ConvTranspose2d`` whose ``in_channels`` are those of its first input."""

    cls_to_become = ConvTranspose2d


class LazyConvTranspose3d(_LazyConvTransposeNd, ConvTranspose3d):
    """A ``ConvTranspose3d`` whose ``in_channels`` are those of its first input."""

    cls_to_become = ConvTranspose3d


check(globals(), __all__)
