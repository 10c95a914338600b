"""Functions of networks that PyTorch has in the package as well as in ``nn.functional``."""

from typing import Any

from .. import _ops
from .arguments import tensor
from .register import public
from .._native import Tensor


def _functional() -> Any:
    from ..nn import functional

    return functional


@public
def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    query_lengths: Any = None,
    key_lengths: Any = None,
) -> Tensor:
    """``nn.functional.scaled_dot_product_attention``.

    >>> q = tw.randn(2, 2, 5, 4)
    >>> tw.scaled_dot_product_attention(q, q, q, is_causal=True).shape
    talweg.Size([2, 2, 5, 4])
    """
    return _functional().scaled_dot_product_attention(
        query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa, query_lengths=query_lengths, key_lengths=key_lengths
    )


@public(method=False)
def layer_norm(
    input: Any, normalized_shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-05, cudnn_enable: bool = True
) -> Tensor:
    """Layer normalization over the last dimensions.

    >>> tw.layer_norm(tw.tensor([[1.0, 3.0]]), (2,), eps=0.0).tolist()
    [[-1.0, 1.0]]
    """
    del cudnn_enable
    return _functional().layer_norm(input, normalized_shape, weight, bias, eps)


@public(method=False)
def rms_norm(input: Any, normalized_shape: Any, weight: Any = None, eps: float | None = None) -> Tensor:
    """Division by the root of the mean square over the last dimensions.

    >>> tw.rms_norm(tw.tensor([[2.0, 2.0]]), (2,), eps=0.0).tolist()
    [[1.0, 1.0]]
    """
    return _functional().rms_norm(input, normalized_shape, weight, eps)


@public(method=False)
def group_norm(
    input: Any, num_groups: int, weight: Any = None, bias: Any = None, eps: float = 1e-05, cudnn_enabled: bool = True
) -> Tensor:
    """Normalization of groups of channels.

    >>> tw.group_norm(tw.tensor([[[1.0], [3.0]]]), 1, eps=0.0).tolist()
    [[[-1.0], [1.0]]]
    """
    del cudnn_enabled
    return _functional().group_norm(input, num_groups, weight, bias, eps)


@public(method=False)
def instance_norm(
    input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, use_input_stats: bool, momentum: float,
    eps: float, cudnn_enabled: bool = True,
) -> Tensor:  # fmt: skip
    """Normalization of each channel of each example; the order of arguments is that of PyTorch's operator.

    >>> tw.instance_norm(tw.tensor([[[1.0, 3.0]]]), None, None, None, None, True, 0.1, 0.0).tolist()
    [[[-1.0, 1.0]]]
    """
    del cudnn_enabled
    return _functional().instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps)


@public(method=False)
def batch_norm(
    input: Any, weight: Any, bias: Any, running_mean: Any, running_var: Any, training: bool, momentum: float, eps: float,
    cudnn_enabled: bool = True,
) -> Tensor:  # fmt: skip
    """Batch normalization of channels; the order of arguments is that of PyTorch's operator.

    >>> tw.batch_norm(tw.tensor([[1.0], [3.0]]), None, None, None, None, True, 0.1, 0.0).tolist()
    [[-1.0], [1.0]]
    """
    del cudnn_enabled
    return _functional().batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps)


@public(method=False)
def embedding(
    weight: Any, indices: Any, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Tensor:
    """Rows of a table.

    >>> tw.embedding(tw.tensor([[1.0], [2.0]]), tw.tensor([1, 0])).tolist()
    [[2.0], [1.0]]
    """
    padding = None if padding_idx < 0 else padding_idx
    settings = {"padding_idx": padding, "scale_grad_by_freq": scale_grad_by_freq, "sparse": sparse}
    return _functional().embedding(tensor(indices), tensor(weight), **settings)


@public(method=False)
def dropout(input: Any, p: float, train: bool) -> Tensor:
    """Each element 0 with probability ``p``, else divided by 1 - p, in training.

    >>> tw.dropout(tw.ones(2), 0.5, False).tolist()
    [1.0, 1.0]
    """
    return _functional().dropout(input, p, train)


@public(method=False)
def max_pool1d(
    input: Any, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> Tensor:
    """The largest element of each window.

    >>> tw.max_pool1d(tw.tensor([[[1.0, 3.0]]]), 2).tolist()
    [[[3.0]]]
    """
    return _functional().max_pool1d(input, kernel_size, stride or None, padding, dilation, ceil_mode)


@public(method=False)
def max_pool2d(
    input: Any, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> Tensor:
    """The largest element of each window.

    >>> tw.max_pool2d(tw.ones(1, 1, 2, 2), 2).tolist()
    [[[[1.0]]]]
    """
    return _functional().max_pool2d(input, kernel_size, stride or None, padding, dilation, ceil_mode)


@public(method=False)
def max_pool3d(
    input: Any, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1, ceil_mode: bool = False
) -> Tensor:
    """The largest element of each window.

    >>> tw.max_pool3d(tw.ones(1, 1, 2, 2, 2), 2).tolist()
    [[[[[1.0]]]]]
    """
    return _functional().max_pool3d(input, kernel_size, stride or None, padding, dilation, ceil_mode)


@public(method=False)
def avg_pool1d(
    input: Any, kernel_size: Any, stride: Any = (), padding: Any = 0, ceil_mode: bool = False, count_include_pad: bool = True
) -> Tensor:
    """The mean of each window.

    >>> tw.avg_pool1d(tw.tensor([[[1.0, 3.0]]]), 2).tolist()
    [[[2.0]]]
    """
    return _functional().avg_pool1d(input, kernel_size, stride or None, padding, ceil_mode, count_include_pad)


@public(method=False)
def adaptive_avg_pool1d(input: Any, output_size: Any) -> Tensor:
    """Means of as many windows as asked for.

    >>> tw.adaptive_avg_pool1d(tw.tensor([[[1.0, 3.0]]]), 1).tolist()
    [[[2.0]]]
    """
    return _functional().adaptive_avg_pool1d(input, output_size)


@public(method=False)
def adaptive_max_pool1d(input: Any, output_size: Any) -> tuple[Tensor, Tensor]:
    """The largest elements of as many windows as asked for, and where they are.

    >>> [t.tolist() for t in tw.adaptive_max_pool1d(tw.tensor([[[1.0, 3.0]]]), 1)]
    [[[[3.0]]], [[[1]]]]
    """
    return _functional().adaptive_max_pool1d(input, output_size, return_indices=True)


@public(method=False)
def bilinear(input1: Any, input2: Any, weight: Any, bias: Any = None) -> Tensor:
    """``input1 W input2`` for each matrix W of the weight.

    >>> tw.bilinear(tw.ones(1, 2), tw.ones(1, 2), tw.ones(1, 2, 2)).tolist()
    [[4.0]]
    """
    return _functional().bilinear(tensor(input1), tensor(input2), weight, bias)


@public(method=False)
def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-08) -> Tensor:
    """The cosine of the angle between vectors along a dimension.

    >>> tw.cosine_similarity(tw.ones(1, 2), tw.ones(1, 2)).tolist()
    [1.0]
    """
    return _functional().cosine_similarity(x1, x2, dim, eps)


@public(method=False)
def pairwise_distance(x1: Any, x2: Any, p: float = 2, eps: float = 1e-06, keepdim: bool = False) -> Tensor:
    """The p-norm of the difference of vectors in the last dimension.

    >>> tw.pairwise_distance(tw.zeros(1, 2), tw.tensor([[3.0, 4.0]]), eps=0.0).tolist()
    [5.0]
    """
    return _functional().pairwise_distance(x1, x2, p, eps, keepdim)


@public(method=False)
def pixel_shuffle(input: Any, upscale_factor: int) -> Tensor:
    """Depth-to-space: ``[N, C r², H, W]`` to ``[N, C, r H, r W]``.

    >>> tw.pixel_shuffle(tw.ones(1, 4, 1, 1), 2).shape
    talweg.Size([1, 1, 2, 2])
    """
    return _ops.pixel_shuffle(input, upscale_factor)


@public(method=False)
def pixel_unshuffle(input: Any, downscale_factor: int) -> Tensor:
    """Space-to-depth: ``[N, C, r H, r W]`` to ``[N, C r², H, W]``.

    >>> tw.pixel_unshuffle(tw.ones(1, 1, 2, 2), 2).shape
    talweg.Size([1, 4, 1, 1])
    """
    return _ops.pixel_unshuffle(input, downscale_factor)


@public(method=False)
def threshold(input: Any, threshold: float, value: float) -> Tensor:
    """Elements not above the threshold become ``value``.

    >>> tw.threshold(tw.tensor([1.0, 3.0]), 2.0, 0.0).tolist()
    [0.0, 3.0]
    """
    return _ops.threshold(input, threshold, value)


_REDUCTIONS = ["none", "mean", "sum"]


@public(method=False)
def margin_ranking_loss(input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: int = 1) -> Tensor:
    """``max(0, margin - target (input1 - input2))``; the reduction is 0, 1 or 2 for none, mean or sum.

    >>> tw.margin_ranking_loss(tw.zeros(1), tw.ones(1), tw.ones(1)).item()
    1.0
    """
    settings = {"margin": margin, "reduction": _REDUCTIONS[reduction]}
    return _functional().margin_ranking_loss(input1, input2, target, **settings)


@public(method=False)
def cosine_embedding_loss(input1: Any, input2: Any, target: Any, margin: float = 0.0, reduction: int = 1) -> Tensor:
    """1 - cos where the target is 1, max(0, cos - margin) where it is -1; the reduction is 0, 1 or 2.

    >>> tw.cosine_embedding_loss(tw.ones(1, 2), tw.ones(1, 2), tw.ones(1)).item()
    0.0
    """
    settings = {"margin": margin, "reduction": _REDUCTIONS[reduction]}
    return _functional().cosine_embedding_loss(input1, input2, target, **settings)


@public(method=False)
def triplet_margin_loss(
    anchor: Any, positive: Any, negative: Any, margin: float = 1.0, p: float = 2, eps: float = 1e-06, swap: bool = False,
    reduction: int = 1,
) -> Tensor:  # fmt: skip
    """``max(0, margin + |a - p| - |a - n|)``; the reduction is 0, 1 or 2 for none, mean or sum.

    >>> tw.triplet_margin_loss(tw.zeros(1, 2), tw.zeros(1, 2), tw.zeros(1, 2)).item()
    1.0
    """
    settings = {"margin": margin, "p": p, "eps": eps, "swap": swap, "reduction": _REDUCTIONS[reduction]}
    return _functional().triplet_margin_loss(anchor, positive, negative, **settings)


@public(method=False)
def ctc_loss(
    log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: int = 0, reduction: int = 1,
    zero_infinity: bool = False,
) -> Tensor:  # fmt: skip
    """Connectionist temporal classification, as in ``nn.functional``; the reduction is 0, 1 or 2.

    >>> even = tw.log_softmax(tw.zeros(2, 1, 2), -1)
    >>> round(tw.ctc_loss(even, tw.tensor([[1]]), [2], [1]).exp().item(), 4)
    1.3333
    """
    return _functional().ctc_loss(
        log_probs, targets, input_lengths, target_lengths, blank, _REDUCTIONS[reduction], zero_infinity
    )
