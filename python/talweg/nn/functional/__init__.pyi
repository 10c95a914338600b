"""Functions of models: PyTorch's names, arguments and defaults."""

# Generated from the package: TALWEG_BLESS=1 pytest python/tests/test_stubs.py writes it.
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import IO, Any, NamedTuple, Self

from ... import Tensor
from ... import dtype
from ... import DTypeLike
from ... import Update
from ...nn import Module
from ...train import Callback
from ...train import History
from ...train import Silent
from ...train import Trainer
from ...utils.data import Subset

def adaptive_avg_pool1d(input: Tensor, output_size: int | Sequence[int]) -> Tensor:
    """Means of as many windows as asked for; ``None``: as many as elements."""
def adaptive_avg_pool2d(input: Tensor, output_size: int | Sequence[int]) -> Tensor:
    """Means of as many windows as asked for; ``None``: as many as elements."""
def adaptive_avg_pool3d(input: Tensor, output_size: int | Sequence[int]) -> Tensor:
    """Means of as many windows as asked for; ``None``: as many as elements."""
def adaptive_max_pool1d(input: Tensor, output_size: int | Sequence[int], return_indices: bool = False) -> Any:
    """The largest elements of as many windows as asked for."""
def adaptive_max_pool2d(input: Tensor, output_size: int | Sequence[int], return_indices: bool = False) -> Any:
    """The largest elements of as many windows as asked for."""
def adaptive_max_pool3d(input: Tensor, output_size: int | Sequence[int], return_indices: bool = False) -> Any:
    """The largest elements of as many windows as asked for."""
def affine_grid(theta: Tensor, size: int | Sequence[int], align_corners: bool | None = None) -> Tensor:
    """Places for ``grid_sample``: those of a picture of ``size [N, C, H, W]`` after the affine map ``theta [N, 2, 3]``.

    >>> import talweg as tw
    >>> same = tw.tensor([[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]])
    >>> tw.nn.functional.affine_grid(same, (1, 1, 2, 2), align_corners=True).tolist()[0][0]
    [[-1.0, -1.0], [1.0, -1.0]]"""
def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Dropout that keeps mean and variance of what ``selu`` returns."""
def avg_pool1d(input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | str | Sequence[int] = 0, ceil_mode: bool = False, count_include_pad: bool = True) -> Tensor:
    """The mean of each window."""
def avg_pool2d(input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | str | Sequence[int] = 0, ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None) -> Tensor:
    """The mean of each window."""
def avg_pool3d(input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | str | Sequence[int] = 0, ceil_mode: bool = False, count_include_pad: bool = True, divisor_override: int | None = None) -> Tensor:
    """The mean of each window."""
def batch_norm(input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None = None, bias: bool | None = None, training: bool = False, momentum: float = 0.1, eps: float = 1e-05) -> Tensor:
    """Batch normalization of channels at axis 1. In training by the batch's own statistics, and the running averages
    are updated; else by the running averages.

    >>> import talweg as tw
    >>> mean, var = tw.zeros(1), tw.ones(1)
    >>> tw.nn.functional.batch_norm(tw.tensor([[1.0], [5.0]]), mean, var, training=True, momentum=0.5).tolist()
    [[-1.0], [1.0]]"""
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor | None, bias: bool | None = None) -> Tensor:
    """y = x₁ᵀ W x₂ + b."""
def binary_cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Any = None, reduce: Any = None, reduction: str = 'mean') -> Tensor:
    """Of probabilities."""
def binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Any = None, reduce: Any = None, reduction: str = 'mean', pos_weight: Tensor | None = None) -> Tensor:
    """Of scores before the sigmoid."""
def celu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x, and alpha (exp(x / alpha) - 1) below zero."""
def celu_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """``celu`` in place."""
def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Channels of several groups interleaved."""
def conv1d(input: Tensor, weight: Tensor | None, bias: bool | None = None, stride: int | Sequence[int] | None = 1, padding: int | str | Sequence[int] = 0, dilation: int | Sequence[int] = 1, groups: int = 1) -> Tensor:
    """Convolution of 1 dimensions with weights ``[out, in / groups, *kernel]``."""
def conv2d(input: Tensor, weight: Tensor | None, bias: bool | None = None, stride: int | Sequence[int] | None = 1, padding: int | str | Sequence[int] = 0, dilation: int | Sequence[int] = 1, groups: int = 1) -> Tensor:
    """Convolution of 2 dimensions with weights ``[out, in / groups, *kernel]``."""
def conv3d(input: Tensor, weight: Tensor | None, bias: bool | None = None, stride: int | Sequence[int] | None = 1, padding: int | str | Sequence[int] = 0, dilation: int | Sequence[int] = 1, groups: int = 1) -> Tensor:
    """Convolution of 3 dimensions with weights ``[out, in / groups, *kernel]``."""
def conv_transpose1d(input: Tensor, weight: Tensor | None, bias: bool | None = None, stride: int | Sequence[int] | None = 1, padding: int | str | Sequence[int] = 0, output_padding: int | Sequence[int] = 0, groups: int = 1, dilation: int | Sequence[int] = 1) -> Tensor:
    """Transposed convolution of 1 dimensions."""
def conv_transpose2d(input: Tensor, weight: Tensor | None, bias: bool | None = None, stride: int | Sequence[int] | None = 1, padding: int | str | Sequence[int] = 0, output_padding: int | Sequence[int] = 0, groups: int = 1, dilation: int | Sequence[int] = 1) -> Tensor:
    """Transposed convolution of 2 dimensions."""
def conv_transpose3d(input: Tensor, weight: Tensor | None, bias: bool | None = None, stride: int | Sequence[int] | None = 1, padding: int | str | Sequence[int] = 0, output_padding: int | Sequence[int] = 0, groups: int = 1, dilation: int | Sequence[int] = 1) -> Tensor:
    """Transposed convolution of 3 dimensions."""
def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, size_average: Any = None, reduce: Any = None, reduction: str = 'mean') -> Tensor:
    """1 - cosine where the target is 1, max(0, cosine - margin) where it is -1."""
def cosine_similarity(x1: Tensor, x2: Tensor, dim: int | None = 1, eps: float = 1e-08) -> Tensor:
    """The cosine of the angle between vectors along a dimension."""
def cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Any = None, ignore_index: int = -100, reduce: Any = None, reduction: str = 'mean', label_smoothing: float = 0.0) -> Tensor:
    """How unlikely classes are under scores: ``input [N, C, ...]``, ``target`` classes ``[N, ...]`` or probabilities.

    >>> import talweg as tw
    >>> round(tw.nn.functional.cross_entropy(tw.zeros(1, 4), tw.tensor([2])).exp().item(), 4)
    4.0"""
def ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0, reduction: str = 'mean', zero_infinity: bool = False) -> Tensor:
    """Connectionist temporal classification: how unlikely ``targets`` ``[N, S]``, or all of them one after the other,
    are under ``log_probs`` ``[T, N, C]``, whichever way they are stretched over time.

    >>> import talweg as tw
    >>> even = tw.zeros(2, 1, 2).log_softmax(-1)
    >>> round(tw.nn.functional.ctc_loss(even, tw.tensor([[1]]), [2], [1]).exp().item(), 4)
    1.3333"""
def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Elements set to zero with probability ``p``, the others scaled up.

    >>> import talweg as tw
    >>> tw.nn.functional.dropout(tw.ones(3), 0.5, training=False).tolist()
    [1.0, 1.0, 1.0]"""
def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Whole channels set to zero with probability ``p``, the others scaled up."""
def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Whole channels set to zero with probability ``p``, the others scaled up."""
def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Whole channels set to zero with probability ``p``, the others scaled up."""
def elu(input: Tensor, alpha: float = 1.0, inplace: bool = False) -> Tensor:
    """x, and alpha (exp(x) - 1) below zero."""
def elu_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """``elu`` in place."""
def embedding(input: Tensor, weight: Tensor, padding_idx: int | None = None, max_norm: float | None = None, norm_type: float = 2.0, scale_grad_by_freq: bool = False, sparse: bool = False) -> Tensor:
    """Row i of ``weight`` for each whole number i. Gradients are dense, also with ``sparse``.

    >>> import talweg as tw
    >>> tw.nn.functional.embedding(tw.tensor([1, 0]), tw.tensor([[1.0], [2.0]])).tolist()
    [[2.0], [1.0]]"""
def embedding_bag(input: Tensor, weight: Tensor | None, offsets: Tensor | None = None, max_norm: float | None = None, norm_type: float = 2, scale_grad_by_freq: bool = False, mode: str = 'mean', sparse: bool = False, per_sample_weights: Tensor | None = None, include_last_offset: bool = False, padding_idx: int | None = None) -> Tensor:
    """Sums, means or maxima of rows of ``weight``: of each row of ``input [B, L]``, or of the bags of a flat ``input``
    that begin at ``offsets``.

    >>> import talweg as tw
    >>> table, bags = tw.tensor([[1.0], [2.0], [4.0]]), tw.tensor([0, 2])
    >>> tw.nn.functional.embedding_bag(tw.tensor([0, 1, 2]), table, bags, mode="sum").tolist()
    [[3.0], [4.0]]"""
def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """``alpha_dropout`` of whole channels."""
def fold(input: Tensor, output_size: int | Sequence[int], kernel_size: int | Sequence[int], dilation: int | Sequence[int] = 1, padding: int | str | Sequence[int] = 0, stride: int | Sequence[int] | None = 1) -> Tensor:
    """Columns added up to pictures: the transpose of ``unfold``."""
def fractional_max_pool2d(input: Tensor, kernel_size: int | Sequence[int], output_size: int | Sequence[int] | None = None, output_ratio: float | Sequence[float] | None = None, return_indices: bool = False, _random_samples: Tensor | None = None) -> Tensor:
    """The greatest element of windows at random places.

    >>> import talweg as tw
    >>> tw.nn.functional.fractional_max_pool2d(tw.ones(1, 1, 4, 4), 2, output_size=2).tolist()
    [[[[1.0, 1.0], [1.0, 1.0]]]]"""
def fractional_max_pool2d_with_indices(input: Tensor, kernel_size: int | Sequence[int], output_size: int | Sequence[int] | None = None, output_ratio: float | Sequence[float] | None = None, return_indices: bool = False, _random_samples: Tensor | None = None) -> Tensor:
    """The greatest element of windows at random places, and its index in the flat plane."""
def fractional_max_pool3d(input: Tensor, kernel_size: int | Sequence[int], output_size: int | Sequence[int] | None = None, output_ratio: float | Sequence[float] | None = None, return_indices: bool = False, _random_samples: Tensor | None = None) -> Tensor:
    """The greatest element of windows at random places of a volume.

    >>> import talweg as tw
    >>> tw.nn.functional.fractional_max_pool3d(tw.ones(1, 1, 4, 4, 4), 2, output_size=2).shape
    (1, 1, 2, 2, 2)"""
def fractional_max_pool3d_with_indices(input: Tensor, kernel_size: int | Sequence[int], output_size: int | Sequence[int] | None = None, output_ratio: float | Sequence[float] | None = None, return_indices: bool = False, _random_samples: Tensor | None = None) -> Tensor:
    """The greatest element of windows at random places of a volume, and its index in the flat volume."""
def gaussian_nll_loss(input: Tensor, target: Tensor, var: Any, full: bool = False, eps: float = 1e-06, reduction: str = 'mean') -> Tensor:
    """Of numbers under a normal distribution with mean ``input`` and variance ``var``."""
def gelu(input: Tensor, approximate: str = 'none') -> Tensor:
    """x Φ(x), with the normal distribution function Φ; ``approximate="tanh"``: its approximation by tanh."""
def glu(input: Tensor, dim: int | None = -1) -> Tensor:
    """The first half of a dimension times the sigmoid of the second."""
def grid_sample(input: Tensor, grid: Tensor, mode: str = 'bilinear', padding_mode: str = 'zeros', align_corners: bool | None = None) -> Tensor:
    """Pictures read at places ``grid [N, H, W, 2]`` between -1 and 1."""
def group_norm(input: Tensor, num_groups: int, weight: Tensor | None = None, bias: bool | None = None, eps: float = 1e-05) -> Tensor:
    """Mean 0 and variance 1 over groups of channels, then scaled and shifted."""
def gumbel_softmax(logits: Tensor, tau: float = 1.0, hard: bool = False, eps: float = 1e-10, dim: int | None = -1) -> Tensor:
    """A sample of the categories; ``hard``: one-hot, with the gradient of the soft one."""
def hardshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x, and zero within ±``lambd``."""
def hardsigmoid(input: Tensor, inplace: bool = False) -> Tensor:
    """(x + 3) / 6 held in [0, 1], elementwise.

    >>> tensor([-4.0, 0.0, 1.5, 3.0]).hardsigmoid().tolist()  # by hand
    [0.0, 0.5, 0.75, 1.0]"""
def hardswish(input: Tensor, inplace: bool = False) -> Tensor:
    """x times (x + 3) / 6 held in [0, 1], elementwise.

    >>> tensor([-4.0, 0.0, 1.5, 6.0]).hardswish().tolist()  # by hand
    [0.0, 0.0, 1.125, 6.0]"""
def hardtanh(input: Tensor, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Tensor:
    """x between ``min_val`` and ``max_val``."""
def hardtanh_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """``hardtanh`` in place."""
def hinge_embedding_loss(input: Tensor, target: Tensor, margin: float = 1.0, size_average: Any = None, reduce: Any = None, reduction: str = 'mean') -> Tensor:
    """x where the target is 1, max(0, margin - x) where it is -1."""
def huber_loss(input: Tensor, target: Tensor, reduction: str = 'mean', delta: float = 1.0, weight: Tensor | None = None) -> Tensor:
    """Squares of differences below ``delta``, straight lines above."""
def instance_norm(input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None, weight: Tensor | None = None, bias: bool | None = None, use_input_stats: bool = True, momentum: float = 0.1, eps: float = 1e-05) -> Tensor:
    """Mean 0 and variance 1 of each channel of each example; by the running averages without ``use_input_stats``."""
def interpolate(input: Tensor, size: int | Sequence[int] | None = None, scale_factor: Any = None, mode: str = 'nearest', align_corners: bool | None = None, recompute_scale_factor: bool | None = None, antialias: bool = False) -> Tensor:
    """Resized pictures: to ``size``, or by ``scale_factor``."""
def kl_div(input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None, reduction: str = 'mean', log_target: bool = False) -> Tensor:
    """Kullback-Leibler divergence; ``input`` are log-probabilities. Its mathematical mean is ``reduction="batchmean"``."""
def l1_loss(input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None, reduction: str = 'mean', weight: Tensor | None = None) -> Tensor:
    """Absolute differences."""
def layer_norm(input: Tensor, normalized_shape: int | Sequence[int], weight: Tensor | None = None, bias: bool | None = None, eps: float = 1e-05) -> Tensor:
    """Mean 0 and variance 1 over the last dimensions, then scaled and shifted.

    >>> import talweg as tw
    >>> tw.nn.functional.layer_norm(tw.tensor([[1.0, 3.0]]), (2,), eps=0.0).tolist()
    [[-1.0, 1.0]]"""
def leaky_relu(input: Tensor, negative_slope: float = 0.01, inplace: bool = False) -> Tensor:
    """x, and ``negative_slope`` x below zero."""
def leaky_relu_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """``leaky_relu`` in place."""
def linear(input: Tensor, weight: Tensor, bias: bool | None = None) -> Tensor:
    """y = x Wᵀ + b on the last dimension.

    >>> import talweg as tw
    >>> tw.nn.functional.linear(tw.ones(3, 4), tw.ones(2, 4), tw.ones(2)).tolist()[0]
    [5.0, 5.0]"""
def linear_cross_entropy(input: Tensor, linear_weight: Tensor, target: Tensor, *, linear_bias: Tensor | None = None, weight: Tensor | None = None, reduction: str = 'mean', ignore_index: int | None = None, label_smoothing: float = 0.0, options: Any = None) -> Tensor:
    """Cross entropy of ``linear(input, linear_weight, linear_bias)``, whose weight is ``[C, ..., features]``.

    ``options`` says in PyTorch how the product is cut; here the compiler decides, and they change nothing.

    >>> import talweg as tw
    >>> x, w = tw.ones(1, 2), tw.zeros(3, 2)
    >>> round(tw.nn.functional.linear_cross_entropy(x, w, tw.tensor([0])).item(), 4)
    1.0986"""
def local_response_norm(input: Tensor, size: int | Sequence[int], alpha: float = 0.0001, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """Divided by a power of the mean square of neighboring channels."""
def log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DTypeLike | None = None) -> Tensor:
    """The logarithm of ``softmax``."""
def logsigmoid(input: Tensor) -> Tensor:
    """log(sigmoid(x)) without overflow, elementwise."""
def lp_pool1d(input: Tensor, norm_type: float, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, ceil_mode: bool = False) -> Tensor:
    """The p-th root of the sum of p-th powers of each window."""
def lp_pool2d(input: Tensor, norm_type: float, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, ceil_mode: bool = False) -> Tensor:
    """The p-th root of the sum of p-th powers of each window."""
def lp_pool3d(input: Tensor, norm_type: float, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, ceil_mode: bool = False) -> Tensor:
    """The p-th root of the sum of p-th powers of each window."""
def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: float = 0, size_average: Any = None, reduce: Any = None, reduction: str = 'mean') -> Tensor:
    """max(0, -target (input1 - input2) + margin)."""
def max_pool1d(input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | str | Sequence[int] = 0, dilation: int | Sequence[int] = 1, ceil_mode: bool = False, return_indices: bool = False) -> Any:
    """The largest element of each window; with ``return_indices`` also where it is."""
def max_pool1d_with_indices(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    """``max_pool1d`` with ``return_indices=True``."""
def max_pool2d(input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | str | Sequence[int] = 0, dilation: int | Sequence[int] = 1, ceil_mode: bool = False, return_indices: bool = False) -> Any:
    """The largest element of each window; with ``return_indices`` also where it is."""
def max_pool2d_with_indices(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    """``max_pool2d`` with ``return_indices=True``."""
def max_pool3d(input: Tensor, kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | str | Sequence[int] = 0, dilation: int | Sequence[int] = 1, ceil_mode: bool = False, return_indices: bool = False) -> Any:
    """The largest element of each window; with ``return_indices`` also where it is."""
def max_pool3d_with_indices(*args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
    """``max_pool3d`` with ``return_indices=True``."""
def max_unpool1d(input: Tensor, indices: Sequence[int], kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | str | Sequence[int] = 0, output_size: int | Sequence[int] | None = None) -> Tensor:
    """Elements back at the places ``max_pool`` has taken them from, zeros elsewhere."""
def max_unpool2d(input: Tensor, indices: Sequence[int], kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | str | Sequence[int] = 0, output_size: int | Sequence[int] | None = None) -> Tensor:
    """Elements back at the places ``max_pool`` has taken them from, zeros elsewhere."""
def max_unpool3d(input: Tensor, indices: Sequence[int], kernel_size: int | Sequence[int], stride: int | Sequence[int] | None = None, padding: int | str | Sequence[int] = 0, output_size: int | Sequence[int] | None = None) -> Tensor:
    """Elements back at the places ``max_pool`` has taken them from, zeros elsewhere."""
def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """x tanh(softplus(x)), elementwise.

    >>> tensor([0.0, 1.0986122886681098]).mish().tolist()  # by hand: tanh(log 4) = 15/17
    [0.0, 0.969363784118920]"""
def mse_loss(input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None, reduction: str = 'mean', weight: Tensor | None = None) -> Tensor:
    """Squares of differences."""
def multi_head_attention_forward(query: Tensor, key: Any, value: Any, embed_dim_to_check: int, num_heads: int, in_proj_weight: Tensor, in_proj_bias: Tensor | None, bias_k: Tensor | None, bias_v: Tensor | None, add_zero_attn: bool, dropout_p: float, out_proj_weight: Tensor, out_proj_bias: Tensor | None, training: bool = True, key_padding_mask: Tensor | None = None, need_weights: bool = True, attn_mask: Tensor | None = None, use_separate_proj_weight: bool = False, q_proj_weight: Tensor | None = None, k_proj_weight: Tensor | None = None, v_proj_weight: Tensor | None = None, static_k: Tensor | None = None, static_v: Tensor | None = None, average_attn_weights: bool = True, is_causal: bool = False) -> tuple[Tensor, Tensor | None]:
    """Attention of several heads over ``[L, N, E]``, or ``[L, E]`` without a batch: the result, and the weights or None.

    In bool masks, true is left out; others are added to the scores."""
def multi_margin_loss(input: Tensor, target: Tensor, p: float = 1, margin: float = 1.0, weight: Tensor | None = None, size_average: Any = None, reduce: Any = None, reduction: str = 'mean') -> Tensor:
    """max(0, margin - x[class] + x[i])^p, averaged over classes."""
def multilabel_margin_loss(input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None, reduction: str = 'mean') -> Tensor:
    """max(0, 1 - (x[label] - x[i])) over labels and other classes; labels end at the first -1."""
def multilabel_soft_margin_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Any = None, reduce: Any = None, reduction: str = 'mean') -> Tensor:
    """Binary cross entropy of each class, averaged over classes."""
def nll_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: Any = None, ignore_index: int = -100, reduce: Any = None, reduction: str = 'mean') -> Tensor:
    """Minus the log-probability of classes: ``input [N, C, ...]`` are log-probabilities."""
def normalize(input: Tensor, p: float = 2.0, dim: int | None = 1, eps: float = 1e-12, out: IO[str] | None = None) -> Tensor:
    """Divided by the p-norm along a dimension.

    >>> import talweg as tw
    >>> tw.nn.functional.normalize(tw.tensor([[3.0, 4.0]]), p=2.0, dim=1).tolist()
    [[0.6, 0.8]]"""
def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """A vector of zeros with a one at each class.

    >>> import talweg as tw
    >>> tw.nn.functional.one_hot(tw.tensor([0, 2]), num_classes=3).tolist()
    [[1, 0, 0], [0, 0, 1]]"""
def pad(input: Tensor, pad: Sequence[int], mode: str = 'constant', value: Any = None) -> Tensor:
    """Padded at the edges of the last dimensions: ``pad`` are before and after, last dimension first.

    >>> import talweg as tw
    >>> tw.nn.functional.pad(tw.ones(2), (1, 1), value=5.0).tolist()
    [5.0, 1.0, 1.0, 5.0]"""
def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-06, keepdim: bool = False) -> Tensor:
    """The p-norm of the difference along the last dimension."""
def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """The distances between all pairs of rows."""
def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """Channels to places: ``[N, C r², H, W]`` to ``[N, C, r H, r W]``."""
def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """Places to channels: ``[N, C, r H, r W]`` to ``[N, C r², H, W]``."""
def poisson_nll_loss(input: Tensor, target: Tensor, log_input: bool = True, full: bool = False, size_average: Any = None, eps: float = 1e-08, reduce: Any = None, reduction: str = 'mean') -> Tensor:
    """Of counts under a Poisson distribution."""
def prelu(input: Tensor, weight: Tensor | None) -> Tensor:
    """x, and ``weight`` x below zero, one weight for all or one for each channel."""
def relu(input: Tensor, inplace: bool = False) -> Tensor:
    """max(x, 0), elementwise."""
def relu6(input: Tensor, inplace: bool = False) -> Tensor:
    """x held in [0, 6], elementwise; the slope at the ends is 0.

    >>> tensor([-2.0, 0.5, 7.0]).relu6().tolist()  # by hand
    [0.0, 0.5, 6.0]"""
def relu_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """``relu`` in place."""
def rms_norm(input: Tensor, normalized_shape: int | Sequence[int], weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    """Divided by the root of the mean square over the last dimensions, then scaled. Without ``eps``, the type's epsilon."""
def rrelu(input: Tensor, lower: float = 0.125, upper: float = 0.3333333333333333, training: bool = False, inplace: bool = False) -> Tensor:
    """A leaky ReLU whose slope is drawn between ``lower`` and ``upper``; in inference it is their mean."""
def rrelu_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """``rrelu`` in place."""
def scaled_dot_product_attention(query: Tensor, key: Any, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False, *, query_lengths: Tensor | None = None, key_lengths: Tensor | None = None) -> Tensor:
    """Attention of queries ``[..., H, L, E]`` with keys and values. In a bool mask, true takes part; others are added
    to the scores. Of sequences of several lengths, ``query_lengths`` and ``key_lengths`` say how much of each counts.

    >>> import talweg as tw
    >>> q = tw.randn(2, 2, 5, 4)
    >>> tw.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True, key_lengths=tw.tensor([5, 3])).shape
    (2, 2, 5, 4)"""
def selu(input: Tensor, inplace: bool = False) -> Tensor:
    """`elu` with the slope and scale of Klambauer and others (2017), which keep mean 0 and variance 1 from layer to layer.

    >>> tensor([-1.0, 0.0, 1.0]).selu().tolist()  # Klambauer and others, equations 2 and 14
    [-1.1113307378125625, 0.0, 1.0507009873554805]"""
def selu_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """``selu`` in place."""
def sigmoid(input: Tensor) -> Tensor:
    """1 / (1 + exp(-x)), elementwise.

    >>> tensor([0.0, 1.0986122886681098, -800.0]).sigmoid().tolist()  # by hand: the logit of 3/4 is log 3
    [0.5, 0.75, 0.0]"""
def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """x sigmoid(x), elementwise; also known as swish.

    >>> tensor([0.0, 1.0986122886681098]).silu().tolist()  # by hand: 3/4 log 3
    [0.0, 0.8239592165010823]"""
def smooth_l1_loss(input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None, reduction: str = 'mean', beta: float = 1.0) -> Tensor:
    """Squares of differences below ``beta``, absolute differences above."""
def soft_margin_loss(input: Tensor, target: Tensor, size_average: Any = None, reduce: Any = None, reduction: str = 'mean') -> Tensor:
    """log(1 + exp(-target x))."""
def softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DTypeLike | None = None) -> Tensor:
    """exp(x) divided by its sum along a dimension; with ``dtype``, computed in that type.

    >>> import talweg as tw
    >>> tw.nn.functional.softmax(tw.zeros(2, 4), dim=1, dtype=tw.float64).tolist()[0]
    [0.25, 0.25, 0.25, 0.25]"""
def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DTypeLike | None = None) -> Tensor:
    """``softmax`` of -x."""
def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(beta x)) / beta; x where beta x is above ``threshold``."""
def softshrink(input: Tensor, lambd: float = 0.5) -> Tensor:
    """x moved towards zero by ``lambd``."""
def softsign(input: Tensor) -> Tensor:
    """x / (1 + |x|), elementwise.

    >>> tensor([-1.0, 0.0, 3.0]).softsign().tolist()  # by hand
    [-0.5, 0.0, 0.75]"""
def tanh(input: Tensor) -> Tensor:
    """Hyperbolic tangent, elementwise.

    >>> tensor([0.0, 1.0]).tanh().tolist()  # Abramowitz and Stegun, table 4.15
    [0.0, 0.7615941559557649]"""
def tanhshrink(input: Tensor) -> Tensor:
    """x - tanh(x), elementwise.

    >>> tensor([0.0, 1.0]).tanhshrink().tolist()  # Abramowitz and Stegun, table 4.15
    [0.0, 0.23840584404423515]"""
def threshold(input: Tensor, threshold: float, value: Any, inplace: bool = False) -> Tensor:
    """x where it is above ``threshold``, else ``value``."""
def threshold_(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
    """``threshold`` in place."""
def triplet_margin_loss(anchor: Tensor, positive: Tensor, negative: Tensor, margin: float = 1.0, p: float = 2, eps: float = 1e-06, swap: bool = False, size_average: Any = None, reduce: Any = None, reduction: str = 'mean') -> Tensor:
    """max(0, |anchor - positive| - |anchor - negative| + margin)."""
def triplet_margin_with_distance_loss(anchor: Tensor, positive: Tensor, negative: Tensor, *, distance_function: Callable[[Tensor, Tensor], Tensor] | None = None, margin: float = 1.0, swap: bool = False, reduction: str = 'mean') -> Tensor:
    """``triplet_margin_loss`` with a custom distance."""
def unfold(input: Tensor, kernel_size: int | Sequence[int], dilation: int | Sequence[int] = 1, padding: int | str | Sequence[int] = 0, stride: int | Sequence[int] | None = 1) -> Tensor:
    """Windows of pictures ``[N, C, H, W]`` as columns ``[N, C kernel, windows]``.

    >>> import talweg as tw
    >>> tw.nn.functional.unfold(tw.ones(1, 2, 4, 4), kernel_size=2, stride=2).shape
    (1, 8, 4)"""
def upsample(input: Tensor, size: int | Sequence[int] | None = None, scale_factor: Any = None, mode: str = 'nearest', align_corners: bool | None = None) -> Tensor:
    """The old name of ``interpolate``."""
def upsample_bilinear(input: Tensor, size: int | Sequence[int] | None = None, scale_factor: Any = None) -> Tensor:
    """The old name of ``interpolate(mode="bilinear", align_corners=True)``."""
def upsample_nearest(input: Tensor, size: int | Sequence[int] | None = None, scale_factor: Any = None) -> Tensor:
    """The old name of ``interpolate(mode="nearest")``."""
