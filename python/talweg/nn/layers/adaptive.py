"""Adaptive softmax over many classes, and ``DataParallel``."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..._checked import check, value_error
from ..._devices import devices
from ..._native import Tensor
from .. import functional as F
from ..containers import ModuleList, Sequential
from ..module import Module
from .common import placed, size
from .linear import Linear

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ... import DTypeLike

__all__ = ["AdaptiveLogSoftmaxWithLoss", "DataParallel"]


class _Result(NamedTuple):
    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """A softmax by clusters (Grave and others 2017): the first ``cutoffs[0]`` classes and the other clusters make up the
    head, and each cluster has a smaller network of its own.

    >>> m = tw.nn.AdaptiveLogSoftmaxWithLoss(8, 20, cutoffs=[4, 10])
    >>> output, loss = m(tw.randn(3, 8), tw.tensor([0, 5, 19]))
    >>> output.shape, m.log_prob(tw.randn(3, 8)).shape
    (talweg.Size([3]), talweg.Size([3, 20]))
    """

    def __init__(
        self, in_features: int, n_classes: int, cutoffs: Sequence[int], div_value: float = 4.0, head_bias: bool = False,
        device: str | None = None, dtype: DTypeLike | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        cutoffs = list(cutoffs)
        if not cutoffs or cutoffs != sorted(set(cutoffs)) or cutoffs[0] <= 0 or cutoffs[-1] > n_classes - 1:
            raise value_error(f"AdaptiveLogSoftmaxWithLoss: cutoffs must rise between 1 and {n_classes - 1}, not {cutoffs}")
        self.in_features, self.n_classes = size(self, "in_features", in_features, 1), size(self, "n_classes", n_classes, 1)
        self.cutoffs, self.div_value, self.head_bias = [*cutoffs, n_classes], div_value, head_bias
        self.shortlist_size, self.n_clusters = self.cutoffs[0], len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(self.in_features, self.head_size, bias=head_bias)
        self.tail = ModuleList()
        for i in range(self.n_clusters):
            hidden, out = int(self.in_features // (div_value ** (i + 1))), self.cutoffs[i + 1] - self.cutoffs[i]
            self.tail.append(Sequential(Linear(self.in_features, hidden, bias=False), Linear(hidden, out, bias=False)))
        placed(self, device, dtype)

    def reset_parameters(self) -> None:
        """Resets all parameters."""
        self.head.reset_parameters()
        for a, b in self.tail:
            a.reset_parameters()
            b.reset_parameters()

    def log_prob(self, input: Tensor) -> Tensor:
        """The log-probabilities of all classes."""
        head = F.log_softmax(self.head(input), dim=1)
        parts = [head[:, : self.shortlist_size]]
        for i, tail in enumerate(self.tail):
            parts.append(F.log_softmax(tail(input), dim=1) + head[:, self.shortlist_size + i].unsqueeze(1))
        return Tensor.concat(parts, 1)

    def predict(self, input: Tensor) -> Tensor:
        """The most likely classes."""
        return self.log_prob(input).argmax(1)

    def forward(self, input: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        is_single = input.ndim == 1
        x, y = (input.unsqueeze(0), target.reshape(1)) if is_single else (input, target)
        if x.ndim != 2 or tuple(y.shape) != (x.shape[0],):
            raise value_error(f"AdaptiveLogSoftmaxWithLoss: expected [N, C] and [N], not {tuple(x.shape)} and {tuple(y.shape)}")
        output = self.log_prob(x).gather(1, y.unsqueeze(1)).squeeze(1)
        return _Result(output.squeeze(0) if is_single else output, -output.mean())


class DataParallel(Module):
    """Calls its module, as in PyTorch on a machine with at most one GPU. Several GPUs are the work of several processes:
    ``talweg launch --workers N python script.py``.

    >>> sorted(tw.nn.DataParallel(tw.nn.Linear(2, 1)).state_dict())
    ['module.bias', 'module.weight']
    """

    def __init__(self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int | None = 0) -> None:
        super().__init__()
        count = len([d for d in devices() if d.startswith("cuda")]) if device_ids is None else len(device_ids)
        if count > 1:
            raise value_error(
                f"DataParallel: {count} devices are used by {count} processes: leave DataParallel out and start "
                f"talweg launch --workers {count} python script.py"
            )
        if dim != 0:
            raise value_error(f"DataParallel: batches lie along dim 0, not {dim}")
        self.module = module

    def forward(self, *inputs: Any, **kwargs: Any) -> Tensor:
        return self.module(*inputs, **kwargs)


check(globals(), __all__)
