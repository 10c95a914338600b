"""MXNet's arrays: ``nd``, contexts and ``autograd.record``.

    import talweg.compat.mxnet as mx

>>> import talweg.compat.mxnet as mx
>>> A = mx.nd.ones((2, 2)) * 2
>>> C = A + 2
>>> B = A + 1
>>> D = B * C
>>> D.asnumpy().tolist()
[[12.0, 12.0], [12.0, 12.0]]
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import _native
from .._native import Tensor

__all__ = ["autograd", "cpu", "gpu", "nd"]


def cpu(device_id: int = 0) -> str:
    """The host, as a context."""
    return "cpu"


def gpu(device_id: int = 0) -> str:
    """A GPU, as a context."""
    return f"cuda:{device_id}"


class NDArray:
    """An array: a tensor with MXNet's methods beside its own."""

    __slots__ = ("tensor",)

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.tensor, name)
        return (lambda *args, **kwargs: _array(found(*map(_bare, args), **kwargs))) if callable(found) else _array(found)

    def asnumpy(self) -> Any:
        """A copy as a NumPy array."""
        return np.array(self.tensor.detach())

    def asscalar(self) -> Any:
        """The one element."""
        return self.tensor.item()

    def as_in_context(self, context: str) -> NDArray:
        """The array on a device."""
        return NDArray(self.tensor.to(context))

    def attach_grad(self, grad_req: str = "write") -> None:
        """Collects gradients of this array."""
        self.tensor.requires_grad_(grad_req != "null")

    def wait_to_read(self) -> None:
        """Waits until the value is computed."""
        self.tensor.detach().numpy()

    @property
    def context(self) -> str:
        """The device."""
        return str(self.tensor.device)

    def __getitem__(self, key: Any) -> NDArray:
        return NDArray(self.tensor[_bare(key)])

    def __setitem__(self, key: Any, value: Any) -> None:
        self.tensor[_bare(key)] = _bare(value)

    def __len__(self) -> int:
        return len(self.tensor)

    def __repr__(self) -> str:
        return f"{self.asnumpy()}\n<NDArray {'x'.join(map(str, self.tensor.shape))} @{self.context}>"


def _bare(x: Any) -> Any:
    return x.tensor if isinstance(x, NDArray) else x


def _array(x: Any) -> Any:
    return NDArray(x) if isinstance(x, Tensor) else x


def _operator(name: str) -> Any:
    return lambda self, *other: _array(getattr(self.tensor, name)(*map(_bare, other)))


for _name in "add radd sub rsub mul rmul truediv rtruediv pow neg abs matmul lt le gt ge eq ne iadd isub imul itruediv".split():
    setattr(NDArray, f"__{_name}__", _operator(f"__{_name}__"))


def _size(shape: Any) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(shape)


def _placed(t: Tensor, ctx: Any) -> NDArray:
    return NDArray(t if ctx is None else t.to(ctx))


class nd:
    """``mxnet.nd``: arrays."""

    NDArray = NDArray

    @staticmethod
    def array(source: Any, ctx: Any = None, dtype: Any = "float32") -> NDArray:
        """An array of ``float32`` elements, as MXNet's default is."""
        return _placed(_native.tensor(source, dtype=dtype), ctx)

    @staticmethod
    def zeros(shape: Any, ctx: Any = None, dtype: Any = "float32") -> NDArray:
        """An array of zeros."""
        return _placed(_native.zeros(_size(shape), dtype=dtype), ctx)

    @staticmethod
    def ones(shape: Any, ctx: Any = None, dtype: Any = "float32") -> NDArray:
        """An array of ones."""
        return _placed(_native.ones(_size(shape), dtype=dtype), ctx)

    @staticmethod
    def full(shape: Any, val: float, ctx: Any = None, dtype: Any = "float32") -> NDArray:
        """An array of equal elements."""
        return _placed(_native.full(_size(shape), val, dtype=dtype), ctx)

    @staticmethod
    def arange(start: float, stop: float | None = None, step: float = 1.0, dtype: Any = "float32") -> NDArray:
        """Numbers in steps."""
        return NDArray(_native.arange(start, stop, step, dtype=dtype) if stop is not None else _native.arange(start, dtype=dtype))

    @staticmethod
    def dot(lhs: NDArray, rhs: NDArray) -> NDArray:
        """The product of matrices."""
        return NDArray(lhs.tensor.matmul(rhs.tensor))

    @staticmethod
    def concat(*data: NDArray, dim: int = 1) -> NDArray:
        """Arrays one after the other."""
        return NDArray(Tensor.concat([d.tensor for d in data], dim))

    @staticmethod
    def waitall() -> None:
        """Does nothing: values are waited for when they are read."""


for _name in "exp log sqrt square abs relu sigmoid tanh softmax maximum minimum".split():
    setattr(nd, _name, staticmethod(lambda *args, _f=getattr(Tensor, _name): _array(_f(*map(_bare, args)))))


class autograd:
    """``mxnet.autograd``: gradients are recorded wherever an array has called ``attach_grad``."""

    @staticmethod
    @contextlib.contextmanager
    def record(train_mode: bool = True) -> Iterator[None]:
        """The scope of a forward pass."""
        from .. import enable_grad

        with enable_grad():
            yield

    @staticmethod
    @contextlib.contextmanager
    def pause(train_mode: bool = False) -> Iterator[None]:
        """A scope without gradients."""
        from .. import no_grad

        with no_grad():
            yield
