"""Ops under the names that models call them by."""

# Generated from the package: TALWEG_BLESS=1 pytest python/tests/test_stubs.py writes it.
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import IO, Any, NamedTuple, Self

from .. import Tensor
from .. import dtype
from .. import DTypeLike
from .. import Update
from ..nn import Module
from ..train import Callback
from ..train import History
from ..train import Silent
from ..train import Trainer
from ..utils.data import Subset

adaptive_avg_pool1d = Tensor.adaptive_avg_pool1d
adaptive_avg_pool2d = Tensor.adaptive_avg_pool2d
adaptive_avg_pool3d = Tensor.adaptive_avg_pool3d
adaptive_max_pool1d = Tensor.adaptive_max_pool1d
adaptive_max_pool2d = Tensor.adaptive_max_pool2d
adaptive_max_pool3d = Tensor.adaptive_max_pool3d
avg_pool1d = Tensor.avg_pool1d
avg_pool2d = Tensor.avg_pool2d
avg_pool3d = Tensor.avg_pool3d
bilinear = Tensor.bilinear
binary_cross_entropy = Tensor.binary_cross_entropy
binary_cross_entropy_with_logits = Tensor.binary_cross_entropy_with_logits
celu = Tensor.celu
conv1d = Tensor.conv1d
conv2d = Tensor.conv2d
conv3d = Tensor.conv3d
conv_transpose1d = Tensor.conv_transpose1d
conv_transpose2d = Tensor.conv_transpose2d
conv_transpose3d = Tensor.conv_transpose3d
cosine_embedding_loss = Tensor.cosine_embedding_loss
cosine_similarity = Tensor.cosine_similarity
cross_entropy = Tensor.cross_entropy
def ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any, blank: int = 0, reduction: str = 'mean', zero_infinity: bool = False) -> Tensor:
    """Connectionist temporal classification: how unlikely ``targets`` ``[N, S]``, or all of them one after the other,
    are under ``log_probs`` ``[T, N, C]``, whichever way they are stretched over time.

    >>> import talweg as tw
    >>> even = tw.zeros(2, 1, 2).log_softmax(-1)
    >>> round(tw.nn.functional.ctc_loss(even, tw.tensor([[1]]), [2], [1]).exp().item(), 4)
    1.3333"""
def dropout(x: Tensor, p: float = 0.5, training: bool = True) -> Tensor:
    """Elements set to zero with probability ``p``, the others scaled up.

    >>> import talweg as tw
    >>> tw.nn.functional.dropout(tw.ones(3), 0.5, training=False).tolist()
    [1.0, 1.0, 1.0]"""
elu = Tensor.elu
def embedding(input: Tensor, weight: Tensor, padding_idx: int | None = None) -> Tensor:
    """Row i of ``weight`` for each whole number i.

    >>> import talweg as tw
    >>> tw.nn.functional.embedding(tw.tensor([1, 0]), tw.tensor([[1.0], [2.0]])).tolist()
    [[2.0], [1.0]]"""
gaussian_nll_loss = Tensor.gaussian_nll_loss
gelu = Tensor.gelu
glu = Tensor.glu
grid_sample = Tensor.grid_sample
group_norm = Tensor.group_norm
hardshrink = Tensor.hardshrink
hardsigmoid = Tensor.hardsigmoid
hardswish = Tensor.hardswish
hardtanh = Tensor.hardtanh
hinge_embedding_loss = Tensor.hinge_embedding_loss
huber_loss = Tensor.huber_loss
instance_norm = Tensor.instance_norm
interpolate = Tensor.interpolate
kl_div = Tensor.kl_div
l1_loss = Tensor.l1_loss
layer_norm = Tensor.layer_norm
leaky_relu = Tensor.leaky_relu
linear = Tensor.linear
local_response_norm = Tensor.local_response_norm
log_softmax = Tensor.log_softmax
logsigmoid = Tensor.log_sigmoid
margin_ranking_loss = Tensor.margin_ranking_loss
max_pool1d = Tensor.max_pool1d
max_pool2d = Tensor.max_pool2d
max_pool3d = Tensor.max_pool3d
mish = Tensor.mish
mse_loss = Tensor.mse_loss
nll_loss = Tensor.nll_loss
normalize = Tensor.normalize
one_hot = Tensor.one_hot
pad = Tensor.pad
pairwise_distance = Tensor.pairwise_distance
pixel_shuffle = Tensor.pixel_shuffle
pixel_unshuffle = Tensor.pixel_unshuffle
poisson_nll_loss = Tensor.poisson_nll_loss
prelu = Tensor.prelu
relu = Tensor.relu
relu6 = Tensor.relu6
rms_norm = Tensor.rms_norm
def scaled_dot_product_attention(query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0, is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False, *, query_lengths: Tensor | None = None, key_lengths: Tensor | None = None) -> Tensor:
    """Attention of queries ``[..., H, L, E]`` with keys and values. Of sequences of several lengths, ``query_lengths``
    and ``key_lengths`` say how much of each counts.

    >>> import talweg as tw
    >>> q = tw.randn(2, 2, 5, 4)
    >>> tw.nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True, key_lengths=tw.tensor([5, 3])).shape
    (2, 2, 5, 4)"""
selu = Tensor.selu
sigmoid = Tensor.sigmoid
silu = Tensor.silu
smooth_l1_loss = Tensor.smooth_l1_loss
softmax = Tensor.softmax
softmin = Tensor.softmin
softplus = Tensor.softplus
softshrink = Tensor.softshrink
softsign = Tensor.softsign
tanh = Tensor.tanh
tanhshrink = Tensor.tanhshrink
threshold = Tensor.threshold
triplet_margin_loss = Tensor.triplet_margin_loss
