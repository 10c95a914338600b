"""Losses as modules: each holds the settings of its function."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ..._checked import check, value_error
from .. import functional as F
from ..functional.common import refuse_old
from .common import Described, Function, shown, size
from .linear import Linear

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ... import DTypeLike, Tensor

__all__ = [
    "BCELoss", "BCEWithLogitsLoss", "CTCLoss", "CosineEmbeddingLoss", "CrossEntropyLoss", "GaussianNLLLoss",
    "HingeEmbeddingLoss", "HuberLoss", "KLDivLoss", "L1Loss", "LinearCrossEntropyLoss", "MSELoss", "MarginRankingLoss",
    "MultiLabelMarginLoss", "MultiLabelSoftMarginLoss", "MultiMarginLoss", "NLLLoss", "PoissonNLLLoss",
    "SmoothL1Loss", "SoftMarginLoss", "TripletMarginLoss", "TripletMarginWithDistanceLoss",
]  # fmt: skip


class _Loss(Function):
    """A loss with its settings. A tensor among them is a buffer."""

    def _set(self, settings: dict[str, Any]) -> None:
        refuse_old(type(self).__name__, settings.pop("size_average", None), settings.pop("reduce", None))
        super()._set(settings)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return self._of(input, target)

    def extra_repr(self) -> str:
        return ""


class CrossEntropyLoss(_Loss, of=F.cross_entropy):
    """Cross-entropy of logits: ``input [N, C, ...]``, ``target`` class indices ``[N, ...]`` or class probabilities."""

    weight: Tensor | None = None
    size_average: Any = None
    ignore_index: int = -100
    reduce: Any = None
    reduction: str = "mean"
    label_smoothing: float = 0.0


class LinearCrossEntropyLoss(Described):
    """Cross-entropy of ``linear(input)``: ``target`` are class indices ``[N, *out_features]``, or class probabilities
    ``[N, C, *out_features]``. ``options`` change nothing: the compiler tiles the GEMM.

    >>> tw.nn.LinearCrossEntropyLoss(4, 10)(tw.ones(3, 4), tw.tensor([0, 5, 9])).shape
    talweg.Size([])
    """

    _row = "LinearCrossEntropyLoss"

    def __init__(
        self, in_features: int, num_classes: int, *, out_features: int | Sequence[int] = (), bias: bool = False,
        device: str | None = None, dtype: DTypeLike | None = None, reduction: str = "mean", weight: Tensor | None = None,
        ignore_index: int | None = None, label_smoothing: float = 0.0, options: Any = None,
    ) -> None:  # fmt: skip
        super().__init__()
        if weight is not None and tuple(weight.shape) != (num_classes,):
            raise value_error(f"LinearCrossEntropyLoss: weight has the shape [{num_classes}], not {list(weight.shape)}")
        if not 0.0 <= label_smoothing <= 1.0:
            raise value_error(f"LinearCrossEntropyLoss: label_smoothing lies between 0 and 1, not at {label_smoothing}")
        self.num_classes = size(self, "num_classes", num_classes, 1)
        outputs = out_features if isinstance(out_features, (tuple, list)) else (out_features,)
        self.out_features = tuple(size(self, "out_features", n) for n in outputs)
        self.linear = Linear(in_features, math.prod(self.out_features, start=num_classes), bias, device, dtype)
        self.register_buffer("weight", weight)
        self.reduction, self.ignore_index, self.label_smoothing, self.options = reduction, ignore_index, label_smoothing, options

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        rows, bias = (self.num_classes, *self.out_features), self.linear.bias
        return F.linear_cross_entropy(
            input, self.linear.weight.reshape(*rows, self.linear.in_features), target,
            linear_bias=None if bias is None else bias.reshape(*rows), weight=self.weight, reduction=self.reduction,
            ignore_index=self.ignore_index, label_smoothing=self.label_smoothing, options=self.options,
        )  # fmt: skip

    def extra_repr(self) -> str:
        settings = {n: getattr(self, n) for n in ("reduction", "ignore_index", "label_smoothing", "options")}
        sizes = shown(in_features=self.linear.in_features, num_classes=self.num_classes, out_features=self.out_features)
        return f"{sizes}, bias={self.linear.bias is not None}, {shown(**settings)}"


class NLLLoss(_Loss, of=F.nll_loss):
    """Negative log-likelihood: ``input [N, C, ...]`` are log-probabilities, ``target`` are class indices."""

    weight: Tensor | None = None
    size_average: Any = None
    ignore_index: int = -100
    reduce: Any = None
    reduction: str = "mean"


class BCELoss(_Loss, of=F.binary_cross_entropy):
    """Binary cross-entropy of probabilities."""

    weight: Tensor | None = None
    size_average: Any = None
    reduce: Any = None
    reduction: str = "mean"


class BCEWithLogitsLoss(_Loss, of=F.binary_cross_entropy_with_logits):
    """Binary cross-entropy of logits."""

    weight: Tensor | None = None
    size_average: Any = None
    reduce: Any = None
    reduction: str = "mean"
    pos_weight: Tensor | None = None


class MultiLabelSoftMarginLoss(_Loss, of=F.multilabel_soft_margin_loss):
    """Binary cross-entropy of each class, averaged over classes."""

    weight: Tensor | None = None
    size_average: Any = None
    reduce: Any = None
    reduction: str = "mean"


class MSELoss(_Loss, of=F.mse_loss):
    """Squared error (L2)."""

    size_average: Any = None
    reduce: Any = None
    reduction: str = "mean"


class L1Loss(_Loss, of=F.l1_loss):
    """Absolute error (L1)."""

    size_average: Any = None
    reduce: Any = None
    reduction: str = "mean"


class SoftMarginLoss(_Loss, of=F.soft_margin_loss):
    """Logistic loss: log(1 + exp(-target x))."""

    size_average: Any = None
    reduce: Any = None
    reduction: str = "mean"


class MultiLabelMarginLoss(_Loss, of=F.multilabel_margin_loss):
    """max(0, 1 - (x[label] - x[i])) over labels and other classes; labels end at the first -1."""

    size_average: Any = None
    reduce: Any = None
    reduction: str = "mean"


class SmoothL1Loss(_Loss, of=F.smooth_l1_loss):
    """Smooth L1 loss: squared error below ``beta``, absolute error above."""

    size_average: Any = None
    reduce: Any = None
    reduction: str = "mean"
    beta: float = 1.0


class HuberLoss(_Loss, of=F.huber_loss):
    """Huber loss: squared error below ``delta``, linear above."""

    reduction: str = "mean"
    delta: float = 1.0


class KLDivLoss(_Loss, of=F.kl_div):
    """Kullback-Leibler divergence; ``input`` are log-probabilities. Its mathematical mean is ``reduction="batchmean"``."""

    size_average: Any = None
    reduce: Any = None
    reduction: str = "mean"
    log_target: bool = False


class PoissonNLLLoss(_Loss, of=F.poisson_nll_loss):
    """Negative log-likelihood of counts under a Poisson distribution."""

    log_input: bool = True
    full: bool = False
    size_average: Any = None
    eps: float = 1e-08
    reduce: Any = None
    reduction: str = "mean"


class GaussianNLLLoss(_Loss, of=F.gaussian_nll_loss):
    """Negative log-likelihood under a normal distribution with mean ``input`` and variance ``var``."""

    full: bool = False
    eps: float = 1e-06
    reduction: str = "mean"

    def forward(self, input: Tensor, target: Tensor, var: Any) -> Tensor:  # type: ignore[override]
        return self._of(input, target, var)


class HingeEmbeddingLoss(_Loss, of=F.hinge_embedding_loss):
    """Hinge embedding loss: x where the target is 1, max(0, margin - x) where it is -1."""

    margin: float = 1.0
    size_average: Any = None
    reduce: Any = None
    reduction: str = "mean"


class MultiMarginLoss(_Loss, of=F.multi_margin_loss):
    """max(0, margin - x[class] + x[i])^p, averaged over classes."""

    p: float = 1
    margin: float = 1.0
    weight: Tensor | None = None
    size_average: Any = None
    reduce: Any = None
    reduction: str = "mean"


class MarginRankingLoss(_Loss, of=F.margin_ranking_loss):
    """max(0, -target (input1 - input2) + margin)."""

    margin: float = 0.0
    size_average: Any = None
    reduce: Any = None
    reduction: str = "mean"

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:  # type: ignore[override]
        return self._of(input1, input2, target)


class CosineEmbeddingLoss(_Loss, of=F.cosine_embedding_loss):
    """1 - cosine where the target is 1, max(0, cosine - margin) where it is -1."""

    margin: float = 0.0
    size_average: Any = None
    reduce: Any = None
    reduction: str = "mean"

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:  # type: ignore[override]
        return self._of(input1, input2, target)


class TripletMarginLoss(_Loss, of=F.triplet_margin_loss):
    """max(0, |anchor - positive| - |anchor - negative| + margin)."""

    margin: float = 1.0
    p: float = 2.0
    eps: float = 1e-06
    swap: bool = False
    size_average: Any = None
    reduce: Any = None
    reduction: str = "mean"

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:  # type: ignore[override]
        return self._of(anchor, positive, negative)


class TripletMarginWithDistanceLoss(_Loss, of=F.triplet_margin_with_distance_loss):
    """``triplet_margin_loss`` with a custom distance."""

    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None
    margin: float = 1.0
    swap: bool = False
    reduction: str = "mean"

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:  # type: ignore[override]
        return self._of(anchor, positive, negative)


class CTCLoss(_Loss, of=F.ctc_loss):
    """Connectionist temporal classification: the negative log-likelihood of ``targets`` ``[N, S]``, or of all of them
    concatenated, under ``log_probs`` ``[T, N, C]``, summed over all alignments."""

    blank: int = 0
    reduction: str = "mean"
    zero_infinity: bool = False

    def forward(self, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any) -> Tensor:  # type: ignore[override]
        return self._of(log_probs, targets, input_lengths, target_lengths)

check(globals(), __all__)
