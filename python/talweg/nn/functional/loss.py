"""Losses, with PyTorch's arguments; ``size_average`` and ``reduce``, which PyTorch has deprecated, are refused."""

from ... import _native
from ..._checked import check, value_error
from ..._native import Tensor
from .common import reduced, refuse_old, tensor

__all__ = []


def _public(f):
    __all__.append(f.__name__)
    return f


@_public
def cross_entropy(
    input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean", label_smoothing=0.0
):
    """How unlikely classes are under scores: ``input [N, C, ...]``, ``target`` classes ``[N, ...]`` or probabilities.

    >>> import talweg as tw
    >>> round(tw.nn.functional.cross_entropy(tw.zeros(1, 4), tw.tensor([2])).exp().item(), 4)
    4.0
    """
    refuse_old("cross_entropy", size_average, reduce)
    settings = dict(ignore_index=ignore_index, label_smoothing=label_smoothing, reduction=reduction)
    return tensor(input).cross_entropy(target, weight=weight, **settings)


@_public
def nll_loss(input, target, weight=None, size_average=None, ignore_index=-100, reduce=None, reduction="mean"):
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


@_public
def mse_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """Squares of differences."""
    refuse_old("mse_loss", size_average, reduce)
    if weight is None:
        return tensor(input).mse_loss(target, reduction=reduction)
    return _weighted(tensor(input).mse_loss(target, reduction="none"), weight, reduction, "mse_loss")


@_public
def l1_loss(input, target, size_average=None, reduce=None, reduction="mean", weight=None):
    """Absolute differences."""
    refuse_old("l1_loss", size_average, reduce)
    if weight is None:
        return tensor(input).l1_loss(target, reduction=reduction)
    return _weighted(tensor(input).l1_loss(target, reduction="none"), weight, reduction, "l1_loss")


@_public
def smooth_l1_loss(input, target, size_average=None, reduce=None, reduction="mean", beta=1.0):
    """Squares of differences below ``beta``, absolute differences above."""
    refuse_old("smooth_l1_loss", size_average, reduce)
    if beta == 0:
        return tensor(input).l1_loss(target, reduction=reduction)
    return tensor(input).smooth_l1_loss(target, beta, reduction)


@_public
def huber_loss(input, target, reduction="mean", delta=1.0, weight=None):
    """Squares of differences below ``delta``, straight lines above."""
    if weight is None:
        return tensor(input).huber_loss(target, delta, reduction)
    return _weighted(tensor(input).huber_loss(target, delta, "none"), weight, reduction, "huber_loss")


@_public
def binary_cross_entropy(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    """Of probabilities."""
    refuse_old("binary_cross_entropy", size_average, reduce)
    return tensor(input).binary_cross_entropy(target, weight=weight, reduction=reduction)


@_public
def binary_cross_entropy_with_logits(
    input, target, weight=None, size_average=None, reduce=None, reduction="mean", pos_weight=None
):
    """Of scores before the sigmoid."""
    refuse_old("binary_cross_entropy_with_logits", size_average, reduce)
    settings = dict(weight=weight, pos_weight=pos_weight, reduction=reduction)
    return tensor(input).binary_cross_entropy_with_logits(target, **settings)


@_public
def kl_div(input, target, size_average=None, reduce=None, reduction="mean", log_target=False):
    """Kullback-Leibler divergence; ``input`` are log-probabilities. Its mathematical mean is ``reduction="batchmean"``."""
    refuse_old("kl_div", size_average, reduce)
    return tensor(input).kl_div(target, log_target, reduction)


@_public
def poisson_nll_loss(
    input, target, log_input=True, full=False, size_average=None, eps=1e-8, reduce=None, reduction="mean"
):
    """Of counts under a Poisson distribution."""
    refuse_old("poisson_nll_loss", size_average, reduce)
    return tensor(input).poisson_nll_loss(target, log_input=log_input, full=full, eps=eps, reduction=reduction)


@_public
def gaussian_nll_loss(input, target, var, full=False, eps=1e-6, reduction="mean"):
    """Of numbers under a normal distribution with mean ``input`` and variance ``var``."""
    x = tensor(input)
    var = tensor(var) if isinstance(var, Tensor) else x.full_like(var)
    if var.ndim == x.ndim - 1:
        var = var.unsqueeze(-1)
    return x.gaussian_nll_loss(target, var, full, eps, reduction)


@_public
def hinge_embedding_loss(input, target, margin=1.0, size_average=None, reduce=None, reduction="mean"):
    """x where the target is 1, max(0, margin - x) where it is -1."""
    refuse_old("hinge_embedding_loss", size_average, reduce)
    return tensor(input).hinge_embedding_loss(target, margin, reduction)


@_public
def margin_ranking_loss(input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"):
    """max(0, -target (input1 - input2) + margin)."""
    refuse_old("margin_ranking_loss", size_average, reduce)
    return tensor(input1).margin_ranking_loss(input2, target, margin, reduction)


@_public
def cosine_embedding_loss(input1, input2, target, margin=0, size_average=None, reduce=None, reduction="mean"):
    """1 - cosine where the target is 1, max(0, cosine - margin) where it is -1."""
    refuse_old("cosine_embedding_loss", size_average, reduce)
    return tensor(input1).cosine_embedding_loss(input2, target, margin, reduction)


@_public
def triplet_margin_loss(
    anchor, positive, negative, margin=1.0, p=2, eps=1e-6, swap=False, size_average=None, reduce=None, reduction="mean"
):
    """max(0, |anchor - positive| - |anchor - negative| + margin)."""
    refuse_old("triplet_margin_loss", size_average, reduce)
    settings = dict(margin=margin, norm=float(p), eps=eps, swap=swap, reduction=reduction)
    return tensor(anchor).triplet_margin_loss(positive, negative, **settings)


@_public
def triplet_margin_with_distance_loss(
    anchor, positive, negative, *, distance_function=None, margin=1.0, swap=False, reduction="mean"
):
    """``triplet_margin_loss`` with a custom distance."""
    if distance_function is None:
        return triplet_margin_loss(anchor, positive, negative, margin, swap=swap, reduction=reduction)
    near, far = distance_function(anchor, positive), distance_function(anchor, negative)
    if swap:
        far = far.minimum(distance_function(positive, negative))
    return reduced((near - far + margin).relu(), reduction, "triplet_margin_with_distance_loss")


@_public
def soft_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
    """log(1 + exp(-target x))."""
    refuse_old("soft_margin_loss", size_average, reduce)
    return reduced((-target * tensor(input)).exp().log1p(), reduction, "soft_margin_loss")


@_public
def multilabel_soft_margin_loss(input, target, weight=None, size_average=None, reduce=None, reduction="mean"):
    """Binary cross entropy of each class, averaged over classes."""
    refuse_old("multilabel_soft_margin_loss", size_average, reduce)
    x = tensor(input)
    loss = -(target * x.log_sigmoid() + (1 - target) * (-x).log_sigmoid())
    loss = loss if weight is None else loss * weight
    return reduced(loss.mean(-1), reduction, "multilabel_soft_margin_loss")


@_public
def multi_margin_loss(
    input, target, p=1, margin=1.0, weight=None, size_average=None, reduce=None, reduction="mean"
):
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


@_public
def multilabel_margin_loss(input, target, size_average=None, reduce=None, reduction="mean"):
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


@_public
def linear_cross_entropy(
    input, linear_weight, target, *, linear_bias=None, weight=None, reduction="mean", ignore_index=None,
    label_smoothing=0.0, options=None,
):  # fmt: skip
    """Cross entropy of ``linear(input, linear_weight, linear_bias)``, whose weight is ``[C, ..., features]``.

    ``options`` says in PyTorch how the product is cut; here the compiler decides, and they change nothing.

    >>> import talweg as tw
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


@_public
def ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction="mean", zero_infinity=False):
    """Connectionist temporal classification: how unlikely ``targets`` ``[N, S]``, or all of them one after the other,
    are under ``log_probs`` ``[T, N, C]``, whichever way they are stretched over time.

    >>> import talweg as tw
    >>> even = tw.zeros(2, 1, 2).log_softmax(-1)
    >>> round(tw.nn.functional.ctc_loss(even, tw.tensor([[1]]), [2], [1]).exp().item(), 4)
    1.3333
    """
    is_single = log_probs.ndim == 2
    if is_single:
        log_probs = log_probs.unsqueeze(1)
    times, lengths = (_native.tensor(t).reshape(-1) for t in (input_lengths, target_lengths))
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
