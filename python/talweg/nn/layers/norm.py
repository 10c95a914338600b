"""Normalizations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import _native, distributed
from ..._checked import check, value_error
from ..._native import Tensor
from .. import functional as F
from ..module import Module
from ..parameter import UninitializedParameter
from .common import Described, placed, shown, size, window
from .linear import LazyModule

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ... import DTypeLike

__all__ = [
    "BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "CrossMapLRN2d", "GroupNorm", "InstanceNorm1d", "InstanceNorm2d",
    "InstanceNorm3d", "LayerNorm", "LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d", "LazyInstanceNorm1d",
    "LazyInstanceNorm2d", "LazyInstanceNorm3d", "LocalResponseNorm", "RMSNorm", "SyncBatchNorm",
]  # fmt: skip


class LayerNorm(Described):
    """Layer normalization over the last dimensions, then an affine map.

    >>> tw.nn.LayerNorm(4)(tw.randn(2, 4)).shape
    talweg.Size([2, 4])
    """

    _row = "LayerNorm"

    def __init__(
        self, normalized_shape: int | Sequence[int], eps: float = 1e-5, elementwise_affine: bool = True,
        bias: bool = True, device: str | None = None, dtype: DTypeLike | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        rank = len(normalized_shape) if isinstance(normalized_shape, (tuple, list)) else 1
        self.normalized_shape = window(self, "normalized_shape", normalized_shape, rank)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        settings = dict(elementwise_affine=bool(elementwise_affine), bias=bool(bias))
        self._make_parameters(normalized_shape=self.normalized_shape, **settings)
        placed(self, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        settings = dict(eps=self.eps, elementwise_affine=self.elementwise_affine, bias=self.bias is not None)
        return f"{self.normalized_shape}, {shown(**settings)}"


class RMSNorm(Described):
    """Root-mean-square normalization over the last dimensions, then scaled.

    >>> tw.nn.RMSNorm(4)(tw.randn(2, 4)).shape
    talweg.Size([2, 4])
    """

    _row = "RMSNorm"

    def __init__(
        self, normalized_shape: int | Sequence[int], eps: float | None = None, elementwise_affine: bool = True,
        device: str | None = None, dtype: DTypeLike | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        rank = len(normalized_shape) if isinstance(normalized_shape, (tuple, list)) else 1
        self.normalized_shape = window(self, "normalized_shape", normalized_shape, rank)
        self.eps, self.elementwise_affine = eps, elementwise_affine
        self._make_parameters(normalized_shape=self.normalized_shape, elementwise_affine=bool(elementwise_affine))
        placed(self, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        return F.rms_norm(input, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(Described):
    """Group normalization over groups of channels, then an affine map.

    >>> tw.nn.GroupNorm(2, 4)(tw.randn(3, 4, 5)).shape
    talweg.Size([3, 4, 5])
    """

    _row = "GroupNorm"

    def __init__(
        self, num_groups: int, num_channels: int, eps: float = 1e-5, affine: bool = True, device: str | None = None,
        dtype: DTypeLike | None = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.num_groups, self.num_channels = size(self, "num_groups", num_groups, 1), size(self, "num_channels", num_channels)
        if self.num_channels % self.num_groups:
            raise value_error(f"GroupNorm: {num_groups} groups do not divide {num_channels} channels")
        self.eps, self.affine = eps, affine
        sizes = dict(num_groups=self.num_groups, num_channels=self.num_channels)
        self._make_parameters(**sizes, affine=bool(affine), bias=bool(bias))
        placed(self, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        settings = dict(eps=self.eps, affine=self.affine, bias=self.bias is not None)
        return f"{self.num_groups}, {self.num_channels}, {shown(**settings)}"


class _NormBase(Described):
    """Running statistics of channels, weight and bias."""

    _ranks: tuple[int, ...] = ()
    _row = "BatchNorm1d"  # the parameters of all are the same

    def _make(self, num_features, eps, momentum, affine, track_running_stats, bias=True):
        self.num_features = size(self, "num_features", num_features)
        self.eps, self.momentum, self.affine, self.track_running_stats = eps, momentum, affine, track_running_stats
        flags = dict(affine=bool(affine), track_running_stats=bool(track_running_stats), bias=bool(bias))
        self._make_parameters(num_features=self.num_features, **flags)
        self.register_buffer("num_batches_tracked", _native.zeros((), dtype="int64") if track_running_stats else None)

    def reset_running_stats(self) -> None:
        """Resets the running statistics."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Ones and zeros, and reset running statistics."""
        super().reset_parameters()
        if "num_batches_tracked" in self._buffers:
            self.reset_running_stats()

    def _check_rank(self, input):
        if input.ndim not in self._ranks:
            expected = " or ".join(map(str, self._ranks))
            raise value_error(f"{type(self).__name__}: expected {expected} dimensions, not {input.ndim}")

    def _load_from_state_dict(self, state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs):
        # Older files do not count batches.
        if self.num_batches_tracked is not None:
            state_dict.setdefault(prefix + "num_batches_tracked", self.num_batches_tracked.detach())
        super()._load_from_state_dict(state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs)

    def extra_repr(self) -> str:
        settings = dict(eps=self.eps, momentum=self.momentum, affine=self.affine, bias=self.bias is not None)
        return f"{self.num_features}, {shown(**settings)}, track_running_stats={self.track_running_stats}"


class _BatchNorm(_NormBase):
    """Batch normalization of channels at axis 1."""

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, affine: bool = True,
        track_running_stats: bool = True, device: str | None = None, dtype: DTypeLike | None = None, *,
        bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self._make(num_features, eps, momentum, affine, track_running_stats, bias)
        placed(self, device, dtype)

    def _factor(self):
        """Counts the batch; its weight in the running averages."""
        if not self.training or not self.track_running_stats:
            return 0.0 if self.momentum is None else self.momentum
        self.num_batches_tracked.add_(1)
        return 1.0 / self.num_batches_tracked.astype("float32") if self.momentum is None else self.momentum

    def forward(self, input: Tensor) -> Tensor:
        self._check_rank(input)
        by_batch = self.training or self.running_mean is None
        keeps = not self.training or self.track_running_stats
        running = (self.running_mean, self.running_var) if keeps else (None, None)
        return F.batch_norm(input, *running, self.weight, self.bias, by_batch, self._factor(), self.eps)


class BatchNorm1d(_BatchNorm):
    """Batch normalization of ``[N, C]`` or ``[N, C, L]``: with batch statistics in training, running statistics in inference."""

    _ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Batch normalization of ``[N, C, H, W]``: with batch statistics in training, running statistics in inference."""

    _ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """Batch normalization of ``[N, C, D, H, W]``: with batch statistics in training, running statistics in inference."""

    _ranks = (5,)


class SyncBatchNorm(_BatchNorm):
    """Batch normalization whose statistics are those of the batches of all workers.

    >>> model = tw.nn.Sequential(tw.nn.Conv2d(1, 2, 3), tw.nn.BatchNorm2d(2))
    >>> tw.nn.SyncBatchNorm.convert_sync_batchnorm(model)[1]
    SyncBatchNorm(2, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
    """

    _ranks = (2, 3, 4, 5)

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, affine: bool = True,
        track_running_stats: bool = True, process_group: Any = None, device: str | None = None,
        dtype: DTypeLike | None = None, *, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """The module with every batch normalization in it replaced; parameters and buffers stay."""
        if isinstance(module, _BatchNorm) and not isinstance(module, SyncBatchNorm):
            made = cls(module.num_features, module.eps, module.momentum, module.affine, module.track_running_stats, process_group)
            made._parameters.update(module._parameters)
            made._buffers.update(module._buffers)
            made.training = module.training
            return made
        for name, child in module.named_children():
            module._modules[name] = cls.convert_sync_batchnorm(child, process_group)
        return module

    def forward(self, input: Tensor) -> Tensor:
        if not self.training or distributed.world_size() == 1:
            return super().forward(input)
        self._check_rank(input)
        axes = tuple(i for i in range(input.ndim) if i != 1)
        shape = [1, self.num_features] + [1] * (input.ndim - 2)
        count = _native.full((1,), input.numel() / self.num_features, dtype=input.dtype)
        sums = distributed.functional.all_reduce(Tensor.concat([input.sum(axes), count]), group=self.process_group)
        total = sums[-1]
        mean = sums[:-1] / total
        # Squares of differences from the mean of all, which the difference of two large sums would lose.
        var = distributed.functional.all_reduce((input - mean.reshape(shape)).square().sum(axes), group=self.process_group) / total
        factor = self._factor()
        if self.track_running_stats:
            F.normalization._moved(self.running_mean, mean, factor)
            F.normalization._moved(self.running_var, var * total / (total - 1), factor)
        return input.batch_norm(mean, var, self.weight, self.bias, self.eps)


class _InstanceNorm(_NormBase):
    """Normalization of each channel of each example."""

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, affine: bool = False,
        track_running_stats: bool = False, device: str | None = None, dtype: DTypeLike | None = None, *,
        bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self._make(num_features, eps, momentum, affine, track_running_stats, bias)
        placed(self, device, dtype)

    def forward(self, input: Tensor) -> Tensor:
        self._check_rank(input)
        if input.ndim == self._ranks[0]:
            return self.forward(input.unsqueeze(0)).squeeze(0)
        by_input = self.training or not self.track_running_stats
        momentum = 0.0 if self.momentum is None else self.momentum
        return F.instance_norm(input, self.running_mean, self.running_var, self.weight, self.bias, by_input, momentum, self.eps)


class InstanceNorm1d(_InstanceNorm):
    """Instance normalization: each channel of each example of ``[N, C, L]``."""

    _ranks = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Instance normalization: each channel of each example of ``[N, C, H, W]``."""

    _ranks = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Instance normalization: each channel of each example of ``[N, C, D, H, W]``."""

    _ranks = (4, 5)


class _LazyNorm(LazyModule):
    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: DTypeLike | None = None,
        *,
        bias: bool = True,
    ) -> None:
        Module.__init__(self)
        self.num_features = 0
        self.eps, self.momentum, self.affine, self.track_running_stats = eps, momentum, affine, track_running_stats
        self.register_parameter("weight", UninitializedParameter() if affine else None)
        self.register_parameter("bias", UninitializedParameter() if affine and bias else None)
        self.__dict__["_lazy_settings"] = (eps, momentum, affine, track_running_stats, bias)
        self.__dict__["_place"] = (device, dtype)

    def initialize_parameters(self, input: Tensor) -> None:
        """Makes parameters and running averages for an input."""
        channels = input.shape[1] if input.ndim == max(self._ranks) or 2 in self._ranks else input.shape[0]
        settings = self.__dict__.pop("_lazy_settings")
        for name in ("weight", "bias"):
            self._parameters.pop(name, None)
        self._make(channels, *settings)

    def has_uninitialized_params(self) -> bool:
        return "_lazy_settings" in self.__dict__


class LazyBatchNorm1d(_LazyNorm, BatchNorm1d):
    """A ``BatchNorm1d`` whose ``num_features`` are the channels of its first input."""

    cls_to_become = BatchNorm1d


class LazyBatchNorm2d(_LazyNorm, BatchNorm2d):
    """A ``BatchNorm2d`` whose ``num_features`` are the channels of its first input."""

    cls_to_become = BatchNorm2d


class LazyBatchNorm3d(_LazyNorm, BatchNorm3d):
    """A ``BatchNorm3d`` whose ``num_features`` are the channels of its first input."""

    cls_to_become = BatchNorm3d


class LazyInstanceNorm1d(_LazyNorm, InstanceNorm1d):
    """A ``InstanceNorm1d`` whose ``num_features`` are the channels of its first input."""

    cls_to_become = InstanceNorm1d


class LazyInstanceNorm2d(_LazyNorm, InstanceNorm2d):
    """A ``InstanceNorm2d`` whose ``num_features`` are the channels of its first input."""

    cls_to_become = InstanceNorm2d


class LazyInstanceNorm3d(_LazyNorm, InstanceNorm3d):
    """A ``InstanceNorm3d`` whose ``num_features`` are the channels of its first input."""

    cls_to_become = InstanceNorm3d


class LocalResponseNorm(Module):
    """Local response normalization: divided by a power of the mean square of neighboring channels.

    >>> tw.nn.LocalResponseNorm(2)(tw.ones(1, 4, 3, 3)).shape
    talweg.Size([1, 4, 3, 3])
    """

    def __init__(self, size: int | Sequence[int], alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size, self.alpha, self.beta, self.k = size, alpha, beta, k

    def forward(self, input: Tensor) -> Tensor:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, {shown(alpha=self.alpha, beta=self.beta, k=self.k)}"


class CrossMapLRN2d(LocalResponseNorm):
    """``LocalResponseNorm`` of images."""

    def __init__(self, size: int | Sequence[int], alpha: float = 1e-4, beta: float = 0.75, k: int = 1) -> None:
        super().__init__(size, alpha, beta, k)


check(globals(), __all__)
