"""``tf.losses``: losses with weights, which a collection gathers."""

# mypy: ignore-errors
from __future__ import annotations

from typing import Any, Callable

from . import maths, nn
from .arrays import reshape, size, squeeze, stop_gradient
from .constants import ones_like
from .graph import GraphKeys, Tensor, add_to_collection, convert_to_tensor, get_collection
from .maths import cast, div_no_nan, multiply, reduce_sum


class Reduction:
    """How losses of elements become one."""

    NONE = "none"
    SUM = "weighted_sum"
    MEAN = "weighted_mean"
    SUM_OVER_BATCH_SIZE = "weighted_sum_over_batch_size"
    SUM_BY_NONZERO_WEIGHTS = "weighted_sum_by_nonzero_weights"
    SUM_OVER_NONZERO_WEIGHTS = SUM_BY_NONZERO_WEIGHTS


def compute_weighted_loss(losses: Any, weights: Any = 1.0, scope: Any = None, loss_collection: Any = GraphKeys.LOSSES, reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS) -> Tensor:
    """Losses times weights, reduced."""
    x = convert_to_tensor(losses)
    w = convert_to_tensor(weights, None if isinstance(weights, Tensor) else x.dtype)
    w = cast(w, x.dtype)
    if w.shape.ndims is not None and x.shape.ndims is not None and 0 < len(w.shape) == len(x.shape) + 1:
        w = squeeze(w, [-1])
    each = multiply(x, w)
    if reduction == Reduction.NONE:
        made = each
    else:
        made = reduce_sum(each)
        wide = multiply(w, ones_like(x))
        if reduction == Reduction.MEAN:
            made = div_no_nan(made, reduce_sum(wide))
        elif reduction == Reduction.SUM_BY_NONZERO_WEIGHTS:
            made = div_no_nan(made, reduce_sum(cast(maths.not_equal(wide, 0.0), x.dtype)))
        elif reduction == Reduction.SUM_OVER_BATCH_SIZE:
            made = div_no_nan(made, cast(size(x), x.dtype))
    add_loss(made, loss_collection)
    return made


def _elementwise(f: Callable[[Tensor, Tensor], Tensor], name: str) -> Callable[..., Tensor]:
    def call(labels: Any, predictions: Any, weights: Any = 1.0, scope: Any = None, loss_collection: Any = GraphKeys.LOSSES, reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS) -> Tensor:
        x = cast(convert_to_tensor(predictions), "float32")
        y = cast(convert_to_tensor(labels), "float32")
        x.shape.assert_is_compatible_with(y.shape)
        return compute_weighted_loss(f(x, y), weights, scope, loss_collection, reduction)

    call.__name__ = name
    call.__doc__ = f"TensorFlow's ``losses.{name}``."
    return call


absolute_difference = _elementwise(lambda x, y: maths.abs(x - y), "absolute_difference")
mean_squared_error = _elementwise(lambda x, y: maths.squared_difference(x, y), "mean_squared_error")


def log_loss(labels: Any, predictions: Any, weights: Any = 1.0, epsilon: float = 1e-7, scope: Any = None, loss_collection: Any = GraphKeys.LOSSES, reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS) -> Tensor:
    """Cross entropy of probabilities."""
    f = lambda x, y: -(y * maths.log(x + epsilon)) - (1 - y) * maths.log(1 - x + epsilon)  # noqa: E731
    return _elementwise(f, "log_loss")(labels, predictions, weights, scope, loss_collection, reduction)


def huber_loss(labels: Any, predictions: Any, weights: Any = 1.0, delta: float = 1.0, scope: Any = None, loss_collection: Any = GraphKeys.LOSSES, reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS) -> Tensor:
    """Squares near zero, lines beyond ``delta``."""

    def f(x: Tensor, y: Tensor) -> Tensor:
        off = maths.abs(x - y)
        near = maths.minimum(off, delta)
        return 0.5 * near * near + delta * (off - near)

    return _elementwise(f, "huber_loss")(labels, predictions, weights, scope, loss_collection, reduction)


def hinge_loss(labels: Any, logits: Any, weights: Any = 1.0, scope: Any = None, loss_collection: Any = GraphKeys.LOSSES, reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS) -> Tensor:
    """Hinge loss of labels 0 and 1."""
    f = lambda x, y: nn.relu(1.0 - (2.0 * y - 1.0) * x)  # noqa: E731
    return _elementwise(f, "hinge_loss")(labels, logits, weights, scope, loss_collection, reduction)


def cosine_distance(labels: Any, predictions: Any, axis: Any = None, weights: Any = 1.0, scope: Any = None, loss_collection: Any = GraphKeys.LOSSES, reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS, dim: Any = None) -> Tensor:
    """``1 - Σ labels predictions`` of unit vectors."""
    x, y = cast(convert_to_tensor(predictions), "float32"), cast(convert_to_tensor(labels), "float32")
    return compute_weighted_loss(1 - reduce_sum(x * y, axis if axis is not None else dim, True), weights, scope, loss_collection, reduction)


def sigmoid_cross_entropy(multi_class_labels: Any, logits: Any, weights: Any = 1.0, label_smoothing: float = 0, scope: Any = None, loss_collection: Any = GraphKeys.LOSSES, reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS) -> Tensor:
    """``nn.sigmoid_cross_entropy_with_logits``, weighted."""
    x = convert_to_tensor(logits)
    y = cast(convert_to_tensor(multi_class_labels), x.dtype)
    if label_smoothing > 0:
        y = y * (1 - label_smoothing) + 0.5 * label_smoothing
    each = nn.sigmoid_cross_entropy_with_logits(labels=y, logits=x)
    return compute_weighted_loss(each, weights, scope, loss_collection, reduction)


def softmax_cross_entropy(onehot_labels: Any, logits: Any, weights: Any = 1.0, label_smoothing: float = 0, scope: Any = None, loss_collection: Any = GraphKeys.LOSSES, reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS) -> Tensor:
    """``nn.softmax_cross_entropy_with_logits``, weighted."""
    x = convert_to_tensor(logits)
    y = cast(convert_to_tensor(onehot_labels), x.dtype)
    if label_smoothing > 0:
        classes = cast(size(y) / size(y[..., 0]), x.dtype)
        y = y * (1 - label_smoothing) + label_smoothing / classes
    each = nn.softmax_cross_entropy_with_logits_v2(labels=stop_gradient(y), logits=x)
    return compute_weighted_loss(each, weights, scope, loss_collection, reduction)


def sparse_softmax_cross_entropy(labels: Any, logits: Any, weights: Any = 1.0, scope: Any = None, loss_collection: Any = GraphKeys.LOSSES, reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS) -> Tensor:
    """``nn.sparse_softmax_cross_entropy_with_logits``, weighted."""
    x, y = convert_to_tensor(logits), convert_to_tensor(labels)
    if y.shape.ndims is not None and x.shape.ndims is not None and len(y.shape) == len(x.shape):
        y = squeeze(y, [-1])
    each = nn.sparse_softmax_cross_entropy_with_logits(labels=y, logits=x)
    return compute_weighted_loss(each, weights, scope, loss_collection, reduction)


def mean_pairwise_squared_error(*_: Any, **__: Any) -> Tensor:
    """Not there: write it with tensors."""
    from .errors import unimplemented

    raise unimplemented("losses.mean_pairwise_squared_error: write it with tensors")


def add_loss(loss: Any, loss_collection: Any = GraphKeys.LOSSES) -> None:
    """Adds a loss to a collection."""
    if loss_collection:
        add_to_collection(loss_collection, loss)


def get_losses(scope: Any = None, loss_collection: Any = GraphKeys.LOSSES) -> list[Tensor]:
    """The losses of a collection."""
    return get_collection(loss_collection, scope)


def get_regularization_losses(scope: Any = None) -> list[Tensor]:
    """The losses that regularizers made."""
    return get_collection(GraphKeys.REGULARIZATION_LOSSES, scope)


def get_regularization_loss(scope: Any = None, name: str = "total_regularization_loss") -> Tensor:
    """The sum of the losses that regularizers made."""
    found = get_regularization_losses(scope)
    return maths.add_n(found, name) if found else convert_to_tensor(0.0)


def get_total_loss(add_regularization_losses: bool = True, name: str = "total_loss", scope: Any = None) -> Tensor:
    """The sum of all losses."""
    found = get_losses(scope) + (get_regularization_losses(scope) if add_regularization_losses else [])
    return maths.add_n([reshape(x, []) for x in found], name)
