"""Normalizations, embeddings, distances."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ... import _native
from ..._checked import check, value_error
from ..._native import Tensor
from ..._state import no_grad
from ...errors import OutOfRangeError, ShapeError
from .common import sizes, tensor

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import IO

__all__ = [
    "batch_norm", "cosine_similarity", "embedding", "embedding_bag", "group_norm", "instance_norm", "layer_norm",
    "local_response_norm", "normalize", "one_hot", "pairwise_distance", "pdist", "rms_norm",
]  # fmt: skip


def _shape_error(what):
    return ShapeError(_native.located(what))


def _normalized(name, x, normalized_shape, *weights):
    shape = sizes(normalized_shape, 1)
    if tuple(x.shape[x.ndim - len(shape) :]) != shape or not shape:
        raise _shape_error(f"{name}: the last dimensions of {tuple(x.shape)} are not {shape}")
    for w in weights:
        if w is not None and tuple(w.shape) != shape:
            raise _shape_error(f"{name}: weight and bias must be {shape}, not {tuple(w.shape)}")
    return len(shape)


def layer_norm(
    input: Tensor, normalized_shape: int | Sequence[int], weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Layer normalization over the last dimensions, then an affine map.

    >>> tw.nn.functional.layer_norm(tw.tensor([[1.0, 3.0]]), (2,), eps=0.0).tolist()
    [[-1.0, 1.0]]
    """
    x = tensor(input)
    _native.check_types("layer_norm", [x, weight, bias], True)
    return x.layer_norm(_normalized("layer_norm", x, normalized_shape, weight, bias), weight, bias, eps)


def rms_norm(
    input: Tensor, normalized_shape: int | Sequence[int], weight: Tensor | None = None, eps: float | None = None,
) -> Tensor:
    """Divided by the root of the mean square over the last dimensions, then scaled. Without ``eps``, the type's epsilon."""
    x = tensor(input)
    axes = _normalized("rms_norm", x, normalized_shape, weight)
    return x.rms_norm(axes, weight, _epsilon(x) if eps is None else eps)


def _epsilon(x):
    bits = {"float64": 52, "float32": 23, "float16": 10, "bfloat16": 7}
    return 2.0 ** -bits.get(str(x.dtype).rpartition(".")[2], 23)


def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5,
) -> Tensor:
    """Mean 0 and variance 1 over groups of channels, then scaled and shifted."""
    x = tensor(input)
    _native.check_types("group_norm", [x, weight, bias], True)
    return x.group_norm(num_groups, weight, bias, eps)


def batch_norm(
    input: Tensor, running_mean: Tensor | None, running_var: Tensor | None, weight: Tensor | None = None,
    bias: Tensor | None = None, training: bool = False, momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Batch normalization of channels at axis 1. In training with batch statistics, and the running statistics
    are updated; else by the running averages.

    >>> mean, var = tw.zeros(1), tw.ones(1)
    >>> tw.nn.functional.batch_norm(tw.tensor([[1.0], [5.0]]), mean, var, training=True, momentum=0.5).tolist()
    [[-1.0], [1.0]]
    """
    x = tensor(input)
    _native.check_types("batch_norm", [x, weight, bias, running_mean, running_var], True)
    if not training:
        if running_mean is None or running_var is None:
            raise value_error("batch_norm: in inference running_mean and running_var are needed")
        return x.batch_norm(running_mean, running_var, weight, bias, eps)
    count = x.numel() // max(x.shape[1], 1) if x.ndim > 1 else 0
    if count < 2:
        raise value_error(f"batch_norm: expected more than 1 value per channel in training, got input of size {tuple(x.shape)}")
    y, mean, var = x.batch_norm_stats(weight, bias, eps)
    if running_mean is not None:
        _moved(running_mean, mean, momentum)
    if running_var is not None:
        _moved(running_var, var * (count / (count - 1.0)), momentum)
    return y


def _moved(running, new, momentum):
    """Moves a running average towards a new value; no gradient flows through it."""
    with no_grad():
        running.copy_(running * (1.0 - momentum) + (new.stop_gradient() * momentum).astype(running.dtype))


def instance_norm(
    input: Tensor, running_mean: Tensor | None = None, running_var: Tensor | None = None, weight: Tensor | None = None,
    bias: Tensor | None = None, use_input_stats: bool = True, momentum: float = 0.1, eps: float = 1e-5,
) -> Tensor:  # fmt: skip
    """Mean 0 and variance 1 of each channel of each example; by the running averages without ``use_input_stats``."""
    x = tensor(input)
    if not use_input_stats:
        if running_mean is None or running_var is None:
            raise value_error("instance_norm: without use_input_stats running_mean and running_var are needed")
        return x.batch_norm(running_mean, running_var, weight, bias, eps)
    axes = tuple(range(2, x.ndim))
    if math.prod(x.shape[2:]) == 1:
        raise value_error(f"instance_norm: each channel of shape {tuple(x.shape)} is one number, which leaves nothing of it")
    if running_mean is not None:
        _moved(running_mean, x.mean(axes).mean(0), momentum)
    if running_var is not None:
        _moved(running_var, x.var(axes, correction=1).mean(0), momentum)
    return x.instance_norm(weight, bias, eps)


def local_response_norm(
    input: Tensor, size: int | Sequence[int], alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0,
) -> Tensor:
    """Divided by a power of the mean square of neighboring channels."""
    return tensor(input).local_response_norm(size, alpha, beta, k)


def normalize(input: Tensor, p: float = 2.0, dim: int | None = 1, eps: float = 1e-12, out: IO[str] | None = None) -> Tensor:
    """Normalization by the p-norm along a dimension.

    >>> tw.nn.functional.normalize(tw.tensor([[3.0, 4.0]]), p=2.0, dim=1).tolist()
    [[0.6, 0.8]]
    """
    if out is not None:
        raise value_error("normalize: out= is not supported; assign the result")
    x = tensor(input)
    if x.ndim == 0:
        return x.reshape(1).normalize(p, 0, eps).reshape(())
    return x.normalize(p, dim, eps)


def cosine_similarity(x1: Tensor, x2: Tensor, dim: int | None = 1, eps: float = 1e-8) -> Tensor:
    """The cosine of the angle between vectors along a dimension."""
    return tensor(x1).cosine_similarity(x2, dim, eps)


def pairwise_distance(x1: Tensor, x2: Tensor, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> Tensor:
    """The p-norm of the difference along the last dimension."""
    return tensor(x1).pairwise_distance(x2, p, eps, keepdim)


def pdist(input: Tensor, p: float = 2.0) -> Tensor:
    """The distances between all pairs of rows."""
    x = tensor(input)
    n = x.shape[0]
    pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]
    first, second = (_native.tensor([pair[k] for pair in pairs]).astype("int64") for k in (0, 1))
    difference = x.take(first, 0) - x.take(second, 0)
    return difference.vector_norm(p, -1)


def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """One-hot vectors of class indices.

    >>> tw.nn.functional.one_hot(tw.tensor([0, 2]), num_classes=3).tolist()
    [[1, 0, 0], [0, 0, 1]]
    """
    if tensor.is_symbolic:
        if num_classes == -1:
            raise value_error("one_hot: num_classes is not known while the graph is made: give it")
    elif tensor.size:
        least, greatest = int(tensor.amin().item()), int(tensor.amax().item())
        num_classes = greatest + 1 if num_classes == -1 else num_classes
        if least < 0 or greatest >= num_classes:
            raise OutOfRangeError(_native.located(f"one_hot: classes {least} to {greatest} of {num_classes}"))
    elif num_classes < 1:
        raise value_error("one_hot: num_classes is not known of an empty tensor: give it")
    return tensor.one_hot(num_classes, "int64")


def _renormed(weight, index, max_norm, norm_type):
    """Shortens the rows that are looked up to ``max_norm``, in the table itself."""
    with no_grad():
        rows = weight.detach().embedding(index.reshape(-1))
        norms = rows.vector_norm(norm_type, -1, True)
        scaled = Tensor.where(norms > max_norm, rows * (max_norm / (norms + 1e-7)), rows)
        weight.copy_(weight.detach().index_copy(0, index.reshape(-1).astype("int64"), scaled))


def _by_frequency(rows, index):
    """The same rows, each with its gradient divided by how often the batch has it."""
    flat = index.reshape(-1)
    count = (flat.unsqueeze(0) == flat.unsqueeze(1)).astype(rows.dtype).sum(1)
    share = rows / count.reshape(*index.shape, 1)
    return share + (rows - share).stop_gradient()


def embedding(
    input: Tensor, weight: Tensor, padding_idx: int | None = None, max_norm: float | None = None, norm_type: float = 2.0,
    scale_grad_by_freq: bool = False, sparse: bool = False,
) -> Tensor:  # fmt: skip
    """Embedding lookup: row i of ``weight`` for each integer i. Gradients are dense, also with ``sparse``.

    >>> tw.nn.functional.embedding(tw.tensor([1, 0]), tw.tensor([[1.0], [2.0]])).tolist()
    [[2.0], [1.0]]
    """
    index, weight = tensor(input), tensor(weight)
    if max_norm is not None:
        _renormed(weight, index, max_norm, norm_type)
    if padding_idx is None:
        rows = weight.embedding(index)
    else:
        rows = weight.embedding_padded(index, padding_idx % weight.shape[0])
    return _by_frequency(rows, index) if scale_grad_by_freq else rows


def embedding_bag(
    input: Tensor, weight: Tensor | None, offsets: Tensor | None = None, max_norm: float | None = None,
    norm_type: float = 2, scale_grad_by_freq: bool = False, mode: str = "mean", sparse: bool = False,
    per_sample_weights: Tensor | None = None, include_last_offset: bool = False, padding_idx: int | None = None,
) -> Tensor:  # fmt: skip
    """Sums, means or maxima over bags of rows of ``weight``: of each row of ``input [B, L]``, or of the bags of a flat ``input``
    that begin at ``offsets``.

    >>> table, bags = tw.tensor([[1.0], [2.0], [4.0]]), tw.tensor([0, 2])
    >>> tw.nn.functional.embedding_bag(tw.tensor([0, 1, 2]), table, bags, mode="sum").tolist()
    [[3.0], [4.0]]
    """
    if mode not in ("sum", "mean", "max"):
        raise value_error(f"embedding_bag: mode is 'sum', 'mean' or 'max', not {mode!r}")
    if per_sample_weights is not None and mode != "sum":
        raise value_error(f"embedding_bag: per_sample_weights need mode='sum', not {mode!r}")
    index, weight = tensor(input), tensor(weight)
    if index.ndim == 2 and offsets is not None:
        raise value_error("embedding_bag: the rows of a matrix are the bags; offsets are for a flat input")
    rows = embedding(index, weight, padding_idx, max_norm, norm_type, scale_grad_by_freq)
    if padding_idx is not None:
        counted = index != padding_idx % weight.shape[0]
    else:
        counted = _native.ones_like(index, dtype="bool")
    if per_sample_weights is not None:
        rows = rows * per_sample_weights.unsqueeze(-1)
    if index.ndim == 2:
        return _bags(rows, counted, mode)
    if offsets is None:
        raise value_error("embedding_bag: a flat input needs offsets")
    offsets = tensor(offsets).reshape(-1).astype("int64")
    bags = offsets.shape[0] - (1 if include_last_offset else 0)
    places = _native.arange(index.shape[0])
    number = (places.unsqueeze(1) >= offsets[:bags].unsqueeze(0)).astype("int64").sum(1) - 1
    return _flat_bags(rows, counted, number, bags, mode)


def _bags(rows, counted, mode):
    """Of rows ``[B, L, E]``."""
    mask = counted.unsqueeze(-1)
    if mode == "max":
        most = Tensor.where(mask, rows, float("-inf")).amax(1)
        return Tensor.where(mask.any(1), most, 0.0)
    total = Tensor.where(mask, rows, 0.0).sum(1)
    return total if mode == "sum" else total / mask.astype(rows.dtype).sum(1).clamp_min(1.0)


def _flat_bags(rows, counted, number, bags, mode):
    """Of rows ``[L, E]`` in bags by their number."""
    mask, width = counted.unsqueeze(-1), rows.shape[-1]
    empty = _native.zeros(bags, width, dtype=rows.dtype)
    count = _native.zeros(bags, 1, dtype=rows.dtype).index_add(0, number, mask.astype(rows.dtype))
    if mode == "max":
        spread = number.unsqueeze(-1).broadcast_to(rows.shape)
        low = empty + float("-inf")
        most = low.scatter_reduce(0, spread, Tensor.where(mask, rows, float("-inf")), "amax")
        return Tensor.where(count > 0, most, 0.0)
    total = empty.index_add(0, number, Tensor.where(mask, rows, 0.0))
    return total if mode == "sum" else total / count.clamp_min(1.0)


check(globals(), __all__)
