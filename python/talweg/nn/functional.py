"""Ops under the names that models call them by."""

from .. import _native
from .._native import Tensor
from .._checked import check, function, value_error

_NAMES = """
relu relu6 gelu silu mish elu celu selu leaky_relu tanh sigmoid softplus softsign softshrink hardshrink
tanhshrink hardtanh hardsigmoid hardswish softmax log_softmax softmin glu prelu threshold
linear bilinear conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d
max_pool1d max_pool2d max_pool3d avg_pool1d avg_pool2d avg_pool3d
adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d
adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d
layer_norm group_norm instance_norm rms_norm local_response_norm normalize one_hot
cosine_similarity pairwise_distance pixel_shuffle pixel_unshuffle grid_sample interpolate pad
cross_entropy nll_loss mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy
binary_cross_entropy_with_logits kl_div poisson_nll_loss gaussian_nll_loss hinge_embedding_loss
margin_ranking_loss cosine_embedding_loss triplet_margin_loss
""".split()
__all__ = [*_NAMES, "ctc_loss", "embedding", "dropout", "logsigmoid", "scaled_dot_product_attention"]

for _name in _NAMES:
    globals()[_name] = function(_name)

logsigmoid = function("log_sigmoid")


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
    each = log_probs.ctc_loss(targets, times, lengths, blank=blank, zero_infinity=zero_infinity, reduction=reduction)
    return each.squeeze(0) if is_single and reduction == "none" else each


def embedding(input, weight, padding_idx=None):
    """Row i of ``weight`` for each whole number i.

    >>> import talweg as tw
    >>> tw.nn.functional.embedding(tw.tensor([1, 0]), tw.tensor([[1.0], [2.0]])).tolist()
    [[2.0], [1.0]]
    """
    return weight.embedding(input) if padding_idx is None else weight.embedding_padded(input, padding_idx)


def dropout(x, p=0.5, training=True):
    """Elements set to zero with probability ``p``, the others scaled up.

    >>> import talweg as tw
    >>> tw.nn.functional.dropout(tw.ones(3), 0.5, training=False).tolist()
    [1.0, 1.0, 1.0]
    """
    if not 0.0 <= p <= 1.0:
        raise value_error(f"dropout: p must lie between 0 and 1, not {p}")
    return x.dropout(p, _native.batch_key(x)) if training and p > 0.0 else x


def scaled_dot_product_attention(
    query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False, *, query_lengths=None, key_lengths=None
):
    """Attention of queries ``[..., H, L, E]`` with keys and values. Of sequences of several lengths, ``query_lengths``
    and ``key_lengths`` say how much of each counts.

    >>> import talweg as tw
    >>> q = tw.randn(2, 2, 5, 4)
    >>> tw.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True, key_lengths=tw.tensor([5, 3])).shape
    (2, 2, 5, 4)
    """
    if not 0.0 <= dropout_p <= 1.0:
        raise value_error(f"scaled_dot_product_attention: dropout_p must lie between 0 and 1, not {dropout_p}")
    return query.attention(
        key,
        value,
        mask=attn_mask,
        causal=is_causal,
        scale=scale,
        grouped=enable_gqa,
        dropout=(dropout_p, _native.batch_key(query)) if dropout_p > 0.0 else None,
        query_lengths=query_lengths,
        key_lengths=key_lengths,
    )


check(globals(), __all__)
