"""Losses as modules: each holds the settings of its function."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..._checked import check
from .. import functional as F
from ..functional.common import refuse_old
from .common import Function

if TYPE_CHECKING:
    from collections.abc import Callable

    from ... import Tensor

__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "CTCLoss", "CosineEmbeddingLoss", "CrossEntropyLoss", "GaussianNLLLoss",
    "HingeEmbeddingLoss", "HuberLoss", "KLDivLoss", "L1Loss", "MSELoss", "MarginRankingLoss",
    "MultiLabelMarginLoss", "MultiLabelSoftMarginLoss", "MultiMarginLoss", "NLLLoss", "PoissonNLLLoss",
    "SmoothL1Loss", "SoftMarginLoss", "TripletMarginLoss", "TripletMarginWithDistanceLoss",
]  # fmt: skip


class _Loss(Function):
    """A loss with its settings. A tensor among them is a buffer."""

    def __init__(self, settings: dict[str, Any]) -> None:
        refuse_old(type(self).__name__, settings.pop("size_average", None), settings.pop("reduce", None))
        super().__init__(settings)

    def extra_repr(self) -> str:
        return ""


class CrossEntropyLoss(_Loss):
    """How unlikely classes are under scores: ``input [N, C, ...]``, ``target`` classes ``[N, ...]`` or probabilities."""

    def __init__(
        self, weight: Tensor | None = None, size_average: Any = None, ignore_index: int = -100, reduce: Any = None,
        reduction: str = "mean", label_smoothing: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__(locals())

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return self._of(F.cross_entropy, input, target)


class NLLLoss(_Loss):
    """Minus the log-probability of classes: ``input [N, C, ...]`` are log-probabilities."""

    def __init__(
        self, weight: Tensor | None = None, size_average: Any = None, ignore_index: int = -100, reduce: Any = None,
        reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(locals())

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return self._of(F.nll_loss, input, target)


class BCELoss(_Loss):
    """Of probabilities."""

    def __init__(
        self, weight: Tensor | None = None, size_average: Any = None, reduce: Any = None, reduction: str = "mean",
    ) -> None:
        super().__init__(locals())

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return self._of(F.binary_cross_entropy, input, target)


class BCEWithLogitsLoss(_Loss):
    """Of scores before the sigmoid."""

    def __init__(
        self, weight: Tensor | None = None, size_average: Any = None, reduce: Any = None, reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:  # fmt: skip
        super().__init__(locals())

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return self._of(F.binary_cross_entropy_with_logits, input, target)


class MultiLabelSoftMarginLoss(_Loss):
    """Binary cross entropy of each class, averaged over classes."""

    def __init__(
        self, weight: Tensor | None = None, size_average: Any = None, reduce: Any = None, reduction: str = "mean",
    ) -> None:
        super().__init__(locals())

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return self._of(F.multilabel_soft_margin_loss, input, target)


class MSELoss(_Loss):
    """Squares of differences."""

    def __init__(self, size_average: Any = None, reduce: Any = None, reduction: str = "mean") -> None:
        super().__init__(locals())

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return self._of(F.mse_loss, input, target)


class L1Loss(_Loss):
    """Absolute differences."""

    def __init__(self, size_average: Any = None, reduce: Any = None, reduction: str = "mean") -> None:
        super().__init__(locals())

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return self._of(F.l1_loss, input, target)


class SoftMarginLoss(_Loss):
    """log(1 + exp(-target x))."""

    def __init__(self, size_average: Any = None, reduce: Any = None, reduction: str = "mean") -> None:
        super().__init__(locals())

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return self._of(F.soft_margin_loss, input, target)


class MultiLabelMarginLoss(_Loss):
    """max(0, 1 - (x[label] - x[i])) over labels and other classes; labels end at the first -1."""

    def __init__(self, size_average: Any = None, reduce: Any = None, reduction: str = "mean") -> None:
        super().__init__(locals())

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return self._of(F.multilabel_margin_loss, input, target)


class SmoothL1Loss(_Loss):
    """Squares of differences below ``beta``, absolute differences above."""

    def __init__(self, size_average: Any = None, reduce: Any = None, reduction: str = "mean", beta: float = 1.0) -> None:
        super().__init__(locals())

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return self._of(F.smooth_l1_loss, input, target)


class HuberLoss(_Loss):
    """Squares of differences below ``delta``, straight lines above."""

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(locals())

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return self._of(F.huber_loss, input, target)


class KLDivLoss(_Loss):
    """Kullback-Leibler divergence; ``input`` are log-probabilities. Its mathematical mean is ``reduction="batchmean"``."""

    def __init__(self, size_average: Any = None, reduce: Any = None, reduction: str = "mean", log_target: bool = False) -> None:
        super().__init__(locals())

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return self._of(F.kl_div, input, target)


class PoissonNLLLoss(_Loss):
    """Of counts under a Poisson distribution."""

    def __init__(
        self, log_input: bool = True, full: bool = False, size_average: Any = None, eps: float = 1e-08,
        reduce: Any = None, reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(locals())

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return self._of(F.poisson_nll_loss, input, target)


class GaussianNLLLoss(_Loss):
    """Of numbers under a normal distribution with mean ``input`` and variance ``var``."""

    def __init__(self, full: bool = False, eps: float = 1e-06, reduction: str = "mean") -> None:
        super().__init__(locals())

    def forward(self, input: Tensor, target: Tensor, var: Any) -> Tensor:
        return self._of(F.gaussian_nll_loss, input, target, var)


class HingeEmbeddingLoss(_Loss):
    """x where the target is 1, max(0, margin - x) where it is -1."""

    def __init__(self, margin: float = 1.0, size_average: Any = None, reduce: Any = None, reduction: str = "mean") -> None:
        super().__init__(locals())

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return self._of(F.hinge_embedding_loss, input, target)


class MultiMarginLoss(_Loss):
    """max(0, margin - x[class] + x[i])^p, averaged over classes."""

    def __init__(
        self, p: float = 1, margin: float = 1.0, weight: Tensor | None = None, size_average: Any = None, reduce: Any = None,
        reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(locals())

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return self._of(F.multi_margin_loss, input, target)


class MarginRankingLoss(_Loss):
    """max(0, -target (input1 - input2) + margin)."""

    def __init__(self, margin: float = 0.0, size_average: Any = None, reduce: Any = None, reduction: str = "mean") -> None:
        super().__init__(locals())

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return self._of(F.margin_ranking_loss, input1, input2, target)


class CosineEmbeddingLoss(_Loss):
    """1 - cosine where the target is 1, max(0, cosine - margin) where it is -1."""

    def __init__(self, margin: float = 0.0, size_average: Any = None, reduce: Any = None, reduction: str = "mean") -> None:
        super().__init__(locals())

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return self._of(F.cosine_embedding_loss, input1, input2, target)


class TripletMarginLoss(_Loss):
    """max(0, |anchor - positive| - |anchor - negative| + margin)."""

    def __init__(
        self, margin: float = 1.0, p: float = 2.0, eps: float = 1e-06, swap: bool = False, size_average: Any = None,
        reduce: Any = None, reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(locals())

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return self._of(F.triplet_margin_loss, anchor, positive, negative)


class TripletMarginWithDistanceLoss(_Loss):
    """``triplet_margin_loss`` with a distance of one's own."""

    def __init__(
        self, distance_function: Callable[[Tensor, Tensor], Tensor] | None = None, margin: float = 1.0, swap: bool = False,
        reduction: str = "mean",
    ) -> None:  # fmt: skip
        super().__init__(locals())

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return self._of(F.triplet_margin_with_distance_loss, anchor, positive, negative)


class CTCLoss(_Loss):
    """Connectionist temporal classification: how unlikely ``targets`` ``[N, S]``, or all of them one after the other,
    are under ``log_probs`` ``[T, N, C]``, whichever way they are stretched over time."""

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__(locals())

    def forward(self, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any) -> Tensor:
        return self._of(F.ctc_loss, log_probs, targets, input_lengths, target_lengths)

check(globals(), __all__)
