"""Questions about tensors: equal, close, of which kind."""

from typing import Any

from .. import _ops as ops
from .._checked import type_error, value_error
from .register import public
from .._native import Tensor, tensor


@public
def equal(input: "Tensor", other: "Tensor") -> bool:
    """True if two tensors have the same shape and elements; ``eq`` compares element by element.

    >>> tw.equal(tw.ones(2), tw.ones(2)), tw.equal(tw.ones(2), tw.ones(3))
    (True, False)
    """
    if not isinstance(other, Tensor):
        raise type_error(f"equal: expected a tensor, not {type(other).__name__}; eq compares with a number")
    return input.shape == other.shape and bool(ops.all(ops.eq(input, other)))


@public
def isclose(input: "Tensor", other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> "Tensor":
    """True where elements differ by at most ``atol + rtol * |other|``.

    >>> tw.isclose(tw.tensor([1.0, 2.0]), tw.tensor([1.0, 2.1])).tolist()
    [True, False]
    """
    other = other if isinstance(other, Tensor) else tensor(other)
    near = ops.eq(input, other) | ((ops.abs(input - other) <= atol + rtol * ops.abs(other)) & ops.is_finite(other))
    return near | (ops.is_nan(input) & ops.is_nan(other)) if equal_nan else near


@public
def allclose(input: "Tensor", other: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """True if all elements are close.

    >>> tw.allclose(tw.ones(3), tw.ones(3) + 1e-7)
    True
    """
    return bool(ops.all(isclose(input, other, rtol, atol, equal_nan)))


@public(method=False)
def is_tensor(obj: Any) -> bool:
    """True for a tensor.

    >>> tw.is_tensor(tw.zeros(1)), tw.is_tensor([0.0])
    (True, False)
    """
    return isinstance(obj, Tensor)


@public
def is_floating_point(input: "Tensor") -> bool:
    """True for a tensor of real floats.

    >>> tw.is_floating_point(tw.zeros(1)), tw.is_floating_point(tw.tensor([1]))
    (True, False)
    """
    return input.dtype.is_floating_point


@public
def is_complex(input: "Tensor") -> bool:
    """True for a tensor of complex numbers.

    >>> tw.is_complex(tw.tensor([1j]))
    True
    """
    return input.dtype.is_complex


@public
def is_signed(input: "Tensor") -> bool:
    """True for a type with negative numbers.

    >>> tw.is_signed(tw.tensor([1], dtype=tw.uint8))
    False
    """
    return input.dtype.name != "bool" and not input.dtype.name.startswith("uint")


@public
def is_nonzero(input: "Tensor") -> bool:
    """True if the only element is not zero.

    >>> tw.is_nonzero(tw.tensor([0.0]))
    False
    """
    if input.numel() != 1:
        raise value_error(f"is_nonzero: expected one element, not {input.numel()}")
    return bool(input)


@public(method=False)
def numel(input: "Tensor") -> int:
    """The number of elements.

    >>> tw.numel(tw.zeros(2, 3))
    6
    """
    return input.numel()


@public
def is_same_size(input: "Tensor", other: "Tensor") -> bool:
    """True if two tensors have the same shape.

    >>> tw.zeros(2).is_same_size(tw.ones(2))
    True
    """
    return input.shape == other.shape
