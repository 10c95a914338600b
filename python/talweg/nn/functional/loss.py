"""Losses, with PyTorch's arguments; ``size_average`` and ``reduce``, which PyTorch has deprecated, are refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import _native
from ..._checked import check, value_error, warn
from ..._native import Tensor
from .common import reduced, refuse_old, tensor

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = [
    "binary_cross_entropy", "binary_cross_entropy_with_logits", "cosine_embedding_loss", "cross_entropy",
    "ctc_loss", "gaussian_nll_loss", "hinge_embedding_loss", "huber_loss", "kl_div", "l1_loss",
    "linear_cross_entropy", "margin_ranking_loss", "mse_loss", "multi_margin_loss", "multilabel_margin_loss",
    "multilabel_soft_margin_loss", "nll_loss", "poisson_nll_loss", "smooth_l1_loss", "soft_margin_loss",
    "triplet_margin_loss", "triplet_margin_with_distance_loss",
]  # fmt: skip


def cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Any = None, ignore_index: int = -100,
    reduce: Any = None, reduction: str = "mean", label_smoothing: float = 0.0,
) -> Tensor:  # fmt: skip
    """Cross-entropy of logits: ``input [N, C, ...]``, ``target`` class indices ``[N, ...]`` or class probabilities.

    >>> round(tw.nn.functional.cross_entropy(tw.zeros(1, 4), tw.tensor([2])).exp().item(), 4)
    4.0
    """
    refuse_old("cross_entropy", size_average, reduce)
    settings = dict(ignore_index=ignore_index, label_smoothing=label_smoothing, reduction=reduction)
    return tensor(input).cross_entropy(target, weight=weight, **settings)


def nll_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Any = None, ignore_index: int = -100,
    reduce: Any = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Minus the log-probability of classes: ``input [N, C, ...]`` are log-probabilities."""
    refuse_old("nll_loss", size_average, reduce)
    return tensor(input).nll_loss(target, weight=weight, ignore_index=ignore_index, reduction=reduction)


def _weighted(loss, weight, reduction, name):
    """A loss of elements times weights; the mean is divided by the weights' sum."""
    if weight is None:
        return reduced(loss, reduction, name)
    loss = loss * weight
    if reduction != "mean":
        return reduced(loss, reduction, name)
    return loss.sum() / tensor(weight).broadcast_to(loss.shape).sum()


def _fitting(name, input, target):
    """The input; warns where it and the target are of different sizes, and so are broadcast."""
    input = tensor(input)
    if isinstance(target, Tensor) and tuple(target.shape) != tuple(input.shape):
        warn(f"{name}: the target is {tuple(target.shape)} and the input {tuple(input.shape)}: they are broadcast, likely by mistake")
    return input


def mse_loss(
    input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None, reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Squares of differences."""
    refuse_old("mse_loss", size_average, reduce)
    if weight is None:
        return _fitting("mse_loss", input, target).mse_loss(target, reduction=reduction)
    return _weighted(_fitting("mse_loss", input, target).mse_loss(target, reduction="none"), weight, reduction, "mse_loss")


def l1_loss(
    input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None, reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Absolute differences."""
    refuse_old("l1_loss", size_average, reduce)
    if weight is None:
        return _fitting("l1_loss", input, target).l1_loss(target, reduction=reduction)
    return _weighted(_fitting("l1_loss", input, target).l1_loss(target, reduction="none"), weight, reduction, "l1_loss")


def smooth_l1_loss(
    input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None, reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:  # fmt: skip
    """Squares of differences below ``beta``, absolute differences above."""
    refuse_old("smooth_l1_loss", size_average, reduce)
    if beta == 0:
        return _fitting("smooth_l1_loss", input, target).l1_loss(target, reduction=reduction)
    return _fitting("smooth_l1_loss", input, target).smooth_l1_loss(target, beta, reduction)


def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None,
) -> Tensor:
    """Squares of differences below ``delta``, straight lines above."""
    if weight is None:
        return _fitting("huber_loss", input, target).huber_loss(target, delta, reduction)
    return _weighted(_fitting("huber_loss", input, target).huber_loss(target, delta, "none"), weight, reduction, "huber_loss")


def binary_cross_entropy(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Any = None, reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Of probabilities."""
    refuse_old("binary_cross_entropy", size_average, reduce)
    return tensor(input).binary_cross_entropy(target, weight=weight, reduction=reduction)


def binary_cross_entropy_with_logits(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Any = None, reduce: Any = None,
    reduction: str = "mean", pos_weight: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Of scores before the sigmoid."""
    refuse_old("binary_cross_entropy_with_logits", size_average, reduce)
    settings = dict(weight=weight, pos_weight=pos_weight, reduction=reduction)
    return tensor(input).binary_cross_entropy_with_logits(target, **settings)


def kl_div(
    input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None, reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:  # fmt: skip
    """Kullback-Leibler divergence; ``input`` are log-probabilities. Its mathematical mean is ``reduction="batchmean"``."""
    refuse_old("kl_div", size_average, reduce)
    return tensor(input).kl_div(target, log_target, reduction)


def poisson_nll_loss(
    input: Tensor, target: Tensor, log_input: bool = True, full: bool = False, size_average: Any = None,
    eps: float = 1e-8, reduce: Any = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Of counts under a Poisson distribution."""
    refuse_old("poisson_nll_loss", size_average, reduce)
    return tensor(input).poisson_nll_loss(target, log_input=log_input, full=full, eps=eps, reduction=reduction)


def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Any, full: bool = False, eps: float = 1e-6, reduction: str = "mean",
) -> Tensor:
    """Of numbers under a normal distribution with mean ``input`` and variance ``var``."""
    x = tensor(input)
    if not isinstance(var, Tensor) and var < 0:
        raise value_error(f"gaussian_nll_loss: var must be at least 0, not {var}")
    var = tensor(var) if isinstance(var, Tensor) else x.full_like(var)
    if var.ndim == x.ndim - 1:
        var = var.unsqueeze(-1)
    return x.gaussian_nll_loss(target, var, full, eps, reduction)


def hinge_embedding_loss(
    input: Tensor, target: Tensor, margin: float = 1.0, size_average: Any = None, reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """x where the target is 1, max(0, margin - x) where it is -1."""
    refuse_old("hinge_embedding_loss", size_average, reduce)
    return tensor(input).hinge_embedding_loss(target, margin, reduction)


def margin_ranking_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, size_average: Any = None, reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """max(0, -target (input1 - input2) + margin)."""
    refuse_old("margin_ranking_loss", size_average, reduce)
    return tensor(input1).margin_ranking_loss(input2, target, margin, reduction)


def cosine_embedding_loss(
    input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, size_average: Any = None, reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """1 - cosine where the target is 1, max(0, cosine - margin) where it is -1."""
    refuse_old("cosine_embedding_loss", size_average, reduce)
    return tensor(input1).cosine_embedding_loss(input2, target, margin, reduction)


def triplet_margin_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2, eps: float = 1e-6,
    swap: bool = False, size_average: Any = None, reduce: Any = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """max(0, |anchor - positive| - |anchor - negative| + margin)."""
    refuse_old("triplet_margin_loss", size_average, reduce)
    settings = dict(margin=margin, norm=float(p), eps=eps, swap=swap, reduction=reduction)
    return tensor(anchor).triplet_margin_loss(positive, negative, **settings)


def triplet_margin_with_distance_loss(
    anchor: Tensor, positive: Tensor, negative: Tensor, *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None, margin: float = 1.0, swap: bool = False,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """``triplet_margin_loss`` with a custom distance."""
    if distance_function is None:
        return triplet_margin_loss(anchor, positive, negative, margin, swap=swap, reduction=reduction)
    near, far = distance_function(anchor, positive), distance_function(anchor, negative)
    if swap:
        far = far.minimum(distance_function(positive, negative))
    return reduced((near - far + margin).relu(), reduction, "triplet_margin_with_distance_loss")


def soft_margin_loss(
    input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None, reduction: str = "mean",
) -> Tensor:
    """log(1 + exp(-target x))."""
    refuse_old("soft_margin_loss", size_average, reduce)
    return reduced((-target * tensor(input)).exp().log1p(), reduction, "soft_margin_loss")


def multilabel_soft_margin_loss(
    input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Any = None, reduce: Any = None,
    reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """Binary cross entropy of each class, averaged over classes."""
    refuse_old("multilabel_soft_margin_loss", size_average, reduce)
    x = tensor(input)
    loss = -(target * x.log_sigmoid() + (1 - target) * (-x).log_sigmoid())
    loss = loss if weight is None else loss * weight
    return reduced(loss.mean(-1), reduction, "multilabel_soft_margin_loss")


def multi_margin_loss(
    input: Tensor, target: Tensor, p: float = 1, margin: float = 1.0, weight: Tensor | None = None,
    size_average: Any = None, reduce: Any = None, reduction: str = "mean",
) -> Tensor:  # fmt: skip
    """max(0, margin - x[class] + x[i])^p, averaged over classes."""
    refuse_old("multi_margin_loss", size_average, reduce)
    x, y = tensor(input), tensor(target).astype("int64")
    if p not in (1, 2):
        raise value_error(f"multi_margin_loss: p is 1 or 2, not {p}")
    is_single = x.ndim < 2
    x, y = (x.reshape(1, -1), y.reshape(1)) if is_single else (x, y)
    own = x.gather(1, y.unsqueeze(1))
    loss = (margin - own + x).relu()
    loss = loss if p == 1 else loss * loss
    if weight is not None:
        loss = loss * tensor(weight).take(y, 0).unsqueeze(1)
    others = y.one_hot(x.shape[1], x.dtype) == 0
    loss = Tensor.where(others, loss, 0.0).sum(1) / x.shape[1]
    return reduced(loss.squeeze(0) if is_single else loss, reduction, "multi_margin_loss")


def multilabel_margin_loss(
    input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None, reduction: str = "mean",
) -> Tensor:
    """max(0, 1 - (x[label] - x[i])) over labels and other classes; labels end at the first -1."""
    refuse_old("multilabel_margin_loss", size_average, reduce)
    x, y = tensor(input), tensor(target).astype("int64")
    is_single = x.ndim < 2
    x, y = (x.reshape(1, -1), y.reshape(1, -1)) if is_single else (x, y)
    counted = (y < 0).astype("int64").cumsum(1) == 0
    safe = Tensor.where(counted, y, 0)
    labels = (safe.one_hot(x.shape[1], x.dtype) * counted.unsqueeze(-1).astype(x.dtype)).sum(1) > 0
    gap = (1.0 - x.gather(1, safe).unsqueeze(2) + x.unsqueeze(1)).relu()
    pairs = counted.unsqueeze(2) & ~labels.unsqueeze(1)
    loss = Tensor.where(pairs, gap, 0.0).sum((1, 2)) / x.shape[1]
    return reduced(loss.squeeze(0) if is_single else loss, reduction, "multilabel_margin_loss")


def linear_cross_entropy(
    input: Tensor, linear_weight: Tensor, target: Tensor, *, linear_bias: Tensor | None = None,
    weight: Tensor | None = None, reduction: str = "mean", ignore_index: int | None = None, label_smoothing: float = 0.0,
    options: Any = None,
) -> Tensor:  # fmt: skip
    """Cross entropy of ``linear(input, linear_weight, linear_bias)``, whose weight is ``[C, ..., features]``.

    ``options`` says in PyTorch how the product is cut; here the compiler decides, and they change nothing.

    >>> x, w = tw.ones(1, 2), tw.zeros(3, 2)
    >>> round(tw.nn.functional.linear_cross_entropy(x, w, tw.tensor([0])).item(), 4)
    1.0986
    """
    del options
    x, w = tensor(input), tensor(linear_weight)
    classes, *others = w.shape[:-1]
    bias = None if linear_bias is None else tensor(linear_bias).reshape(-1)
    logits = x.linear(w.reshape(-1, w.shape[-1]), bias).reshape(*x.shape[:-1], classes, *others)
    ignored = -100 if ignore_index is None else ignore_index
    return cross_entropy(
        logits, target, weight, ignore_index=ignored, reduction=reduction, label_smoothing=label_smoothing
    )


def ctc_loss(
    log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0, reduction: str = "mean",
    zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    """Connectionist temporal classification: the negative log-likelihood of ``targets`` ``[N, S]``, or of all of them
    are under ``log_probs`` ``[T, N, C]``, whichever way they are stretched over time.

    >>> even = tw.zeros(2, 1, 2).log_softmax(-1)
    >>> round(tw.nn.functional.ctc_loss(even, tw.tensor([[1]]), [2], [1]).exp().item(), 4)
    1.3333
    """
    is_single = log_probs.ndim == 2
    if is_single:
        log_probs = log_probs.unsqueeze(1)
    times, lengths = (_native.tensor(t).reshape(-1) for t in (input_lengths, target_lengths))
    if not times.is_symbolic and times.size and int(times.amax().item()) > log_probs.shape[0]:
        raise value_error(f"ctc_loss: an input length is {int(times.amax().item())}, but log_probs has {log_probs.shape[0]} steps")
    if targets.ndim == 1:
        sizes = [len(targets)] if is_single else lengths.tolist()
        if sum(sizes) != len(targets):
            raise value_error(f"ctc_loss: there are {len(targets)} targets, but the lengths add up to {sum(sizes)}")
        starts = [sum(sizes[:i]) for i in range(len(sizes))]
        rows = [targets[a : a + n].pad((0, max(sizes) - n)) for a, n in zip(starts, sizes)]
        targets = Tensor.stack(rows)
    each = log_probs.ctc_loss(targets, times, lengths, blank=blank, zero_infinity=zero_infinity, reduction="none")
    each = each + _normalization(log_probs, times) * (each != 0).astype(each.dtype)
    if reduction == "mean":
        each = each / Tensor.clamp_min(lengths, 1).astype(each.dtype)
    each = each.squeeze(0) if is_single and reduction == "none" else each
    return reduced(each, reduction, "ctc_loss")


def _normalization(log_probs, times):
    """Zeros, with the gradient exp(log_probs): PyTorch's loss has that of a ``log_softmax`` before it, which changes
    nothing where there is one."""
    p = log_probs.exp()
    inside = _native.arange(p.shape[0]).reshape(-1, 1) < times.to(p.device).reshape(1, -1)
    return ((p - p.detach()).sum(-1) * inside.astype(p.dtype)).sum(0)


check(globals(), __all__)
