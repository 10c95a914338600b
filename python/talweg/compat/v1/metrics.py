"""``tf.metrics``: running values over runs, as a pair of the value and the operation that updates it."""

# mypy: ignore-errors
from __future__ import annotations

from typing import Any

from . import maths
from .constants import ones_like, zeros
from .graph import GraphKeys, Tensor, add_to_collections, convert_to_tensor, get_default_graph
from .maths import cast, div_no_nan, reduce_sum
from .variables import Variable, assign_add, variable_scope


def _counter(name: str, shape: Any = ()) -> Variable:
    from .variables import get_variable_scope

    graph = get_default_graph()
    with graph.outside():
        keys = [GraphKeys.LOCAL_VARIABLES, GraphKeys.METRIC_VARIABLES]
        prefix = get_variable_scope().name
        with graph.name_scope(None):
            return Variable(zeros(list(shape)), trainable=False, collections=keys, name=f"{prefix}/{name}" if prefix else name)


def _done(value: Tensor, update: Tensor, collections: Any, updates: Any) -> tuple[Tensor, Tensor]:
    add_to_collections(collections, value)
    add_to_collections(updates, update)
    return value, update


def mean(values: Any, weights: Any = None, metrics_collections: Any = None, updates_collections: Any = None, name: str | None = None) -> tuple[Tensor, Tensor]:
    """The mean of all values so far."""
    with variable_scope(name, "mean"):
        x = cast(convert_to_tensor(values), "float32")
        w = ones_like(x) if weights is None else maths.multiply(cast(convert_to_tensor(weights), "float32"), ones_like(x))
        total, count = _counter("total"), _counter("count")
        value = div_no_nan(total, count, "value")
        a, b = assign_add(total, reduce_sum(x * w)), assign_add(count, reduce_sum(w))
        update = div_no_nan(a, b, "update_op")
        return _done(value, update, metrics_collections, updates_collections)


def accuracy(labels: Any, predictions: Any, weights: Any = None, metrics_collections: Any = None, updates_collections: Any = None, name: str | None = None) -> tuple[Tensor, Tensor]:
    """The share of predictions that equal their labels."""
    y, x = convert_to_tensor(labels), convert_to_tensor(predictions)
    y.shape.assert_is_compatible_with(x.shape)
    hit = maths.equal(cast(y, x.dtype), x)
    return mean(cast(hit, "float32"), weights, metrics_collections, updates_collections, name or "accuracy")


def mean_squared_error(labels: Any, predictions: Any, weights: Any = None, metrics_collections: Any = None, updates_collections: Any = None, name: str | None = None) -> tuple[Tensor, Tensor]:
    """The mean of squared errors."""
    x = convert_to_tensor(predictions)
    each = maths.squared_difference(cast(convert_to_tensor(labels), x.dtype), x)
    return mean(each, weights, metrics_collections, updates_collections, name or "mean_squared_error")


def mean_absolute_error(labels: Any, predictions: Any, weights: Any = None, metrics_collections: Any = None, updates_collections: Any = None, name: str | None = None) -> tuple[Tensor, Tensor]:
    """The mean of absolute errors."""
    x = convert_to_tensor(predictions)
    each = maths.abs(cast(convert_to_tensor(labels), x.dtype) - x)
    return mean(each, weights, metrics_collections, updates_collections, name or "mean_absolute_error")


def root_mean_squared_error(labels: Any, predictions: Any, weights: Any = None, metrics_collections: Any = None, updates_collections: Any = None, name: str | None = None) -> tuple[Tensor, Tensor]:
    """The root of the mean of squared errors."""
    value, update = mean_squared_error(labels, predictions, weights, None, None, name or "root_mean_squared_error")
    return _done(maths.sqrt(value), maths.sqrt(update), metrics_collections, updates_collections)


def _counted(name: str, test: Any) -> Any:
    def call(labels: Any, predictions: Any, weights: Any = None, metrics_collections: Any = None, updates_collections: Any = None, scope: str | None = None) -> tuple[Tensor, Tensor]:
        with variable_scope(scope, name):
            y, x = cast(convert_to_tensor(labels), "bool"), cast(convert_to_tensor(predictions), "bool")
            each = cast(test(y, x), "float32")
            each = each if weights is None else each * cast(convert_to_tensor(weights), "float32")
            count = _counter("count")
            return _done(count.value(), assign_add(count, reduce_sum(each)), metrics_collections, updates_collections)

    call.__name__ = name
    call.__doc__ = f"The number of {name.replace('_', ' ')}."
    return call


true_positives = _counted("true_positives", lambda y, x: maths.logical_and(y, x))
false_positives = _counted("false_positives", lambda y, x: maths.logical_and(maths.logical_not(y), x))
false_negatives = _counted("false_negatives", lambda y, x: maths.logical_and(y, maths.logical_not(x)))
true_negatives = _counted("true_negatives", lambda y, x: maths.logical_and(maths.logical_not(y), maths.logical_not(x)))


def _ratio(name: str, other: Any) -> Any:
    def call(labels: Any, predictions: Any, weights: Any = None, metrics_collections: Any = None, updates_collections: Any = None, name_: str | None = None, **settings: Any) -> tuple[Tensor, Tensor]:
        with variable_scope(settings.get("name", name_), name):
            tp, tp_update = true_positives(labels, predictions, weights)
            wrong, wrong_update = other(labels, predictions, weights)
            return _done(div_no_nan(tp, tp + wrong), div_no_nan(tp_update, tp_update + wrong_update), metrics_collections, updates_collections)

    call.__name__ = name
    call.__doc__ = f"The {name} so far."
    return call


precision = _ratio("precision", false_positives)
recall = _ratio("recall", false_negatives)
