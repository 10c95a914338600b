"""Random tensors and generators."""

import contextlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from .. import _native, _ops as ops
from .._checked import type_error, value_error
from .._device import device as _device
from .creation import finished
from .register import PUBLIC, public
from .._native import Tensor

if TYPE_CHECKING:
    from .. import DTypeLike


class Generator:
    """A random generator: a seed and the number of draws made.

    >>> g = tw.Generator().manual_seed(3)
    >>> a = tw.rand(2, generator=g)
    >>> tw.equal(a, tw.rand(2, generator=g.manual_seed(3)))
    True
    """

    def __init__(self, device: Any = "cpu") -> None:
        self.device = _device(device)
        self._state = (67280421310721, 0)

    def manual_seed(self, seed: int) -> "Generator":
        """Starts over."""
        if not -(2**63) <= int(seed) < 2**64:
            raise value_error(f"manual_seed: the seed must have 64 bits, but got {seed}")
        self._state = (int(seed) % 2**64, 0)
        return self

    def seed(self) -> int:
        """Starts over with a seed from the system, which it returns."""
        self.manual_seed(int.from_bytes(os.urandom(7), "little"))
        return self.initial_seed()

    def initial_seed(self) -> int:
        """The seed."""
        return self._state[0]

    def get_state(self) -> "Tensor":
        """The seed and the number of draws, as bytes."""
        return _native.tensor(list(b"".join(n.to_bytes(8, "little") for n in self._state)), "uint8")

    def set_state(self, new_state: "Tensor") -> "Generator":
        """Continues from a state."""
        data = bytes(new_state.tolist())
        if len(data) != 16:
            raise value_error(f"set_state: expected the 16 bytes of get_state, not {len(data)}")
        self._state = (int.from_bytes(data[:8], "little"), int.from_bytes(data[8:], "little"))
        return self

    def clone_state(self) -> "Generator":
        """Another generator in this state."""
        made = Generator(self.device)
        made._state = self._state
        return made

    def __getstate__(self) -> Any:
        return {"device": self.device, "_state": self._state}

    @contextlib.contextmanager
    def drawing(self) -> Iterator[None]:
        """A scope in which what is drawn comes from here."""
        if _native.is_tracing():
            raise value_error("generator: a traced function draws from the thread's generator: use tw.manual_seed")
        before = _native.random_state()
        _native.set_random_state(self._state)
        try:
            yield
        finally:
            self._state = _native.random_state()
            _native.set_random_state(before)


class _ThreadGenerator(Generator):
    """The generator of this thread."""

    def __init__(self) -> None:
        self.device = _device("cpu")

    @property
    def _state(self) -> Any:
        return _native.random_state()

    @_state.setter
    def _state(self, state: Any) -> None:
        _native.set_random_state(state)

    @contextlib.contextmanager
    def drawing(self) -> Iterator[None]:
        yield


default_generator = _ThreadGenerator()
PUBLIC["Generator"], PUBLIC["default_generator"] = Generator, default_generator


def from_generator(generator: Any) -> Any:
    """The scope in which a function draws from a generator, or from the thread's."""
    if generator is None:
        return contextlib.nullcontext()
    if not isinstance(generator, Generator):
        raise type_error(f"generator: expected a tw.Generator, not {type(generator).__name__}")
    return generator.drawing()


@public(method=False)
def manual_seed(seed: int) -> Generator:
    """Seeds the generator of this thread; returns its generator.

    >>> tw.manual_seed(0).initial_seed()
    0
    """
    return default_generator.manual_seed(seed)


@public(method=False)
def seed() -> int:
    """Seeds the generator of this thread with a seed from the system, which it returns.

    >>> tw.seed() == tw.initial_seed()
    True
    """
    return default_generator.seed()


@public(method=False)
def initial_seed() -> int:
    """The seed of this thread's generator.

    >>> g = tw.manual_seed(5)
    >>> tw.initial_seed()
    5
    """
    return default_generator.initial_seed()


@public(method=False)
def get_rng_state() -> "Tensor":
    """The state of this thread's generator, as bytes.

    >>> state = tw.get_rng_state()
    >>> a = tw.rand(2)
    >>> tw.set_rng_state(state)
    >>> tw.equal(a, tw.rand(2))
    True
    """
    return default_generator.get_state()


@public(method=False)
def set_rng_state(new_state: "Tensor") -> None:
    """Continues from a state of ``get_rng_state``.

    >>> tw.set_rng_state(tw.get_rng_state())
    """
    default_generator.set_state(new_state)


def _check_floats(name: str, dtype: Any) -> None:
    """Fails for a type that no random number of a distribution over floats is of."""
    if dtype is not None and not (_native.dtype(dtype).is_floating_point or _native.dtype(dtype).is_complex):
        raise type_error(f"{name}: expected a float type, not {_native.dtype(dtype)}: randint draws integers")


@public(method=False)
def rand(*size: Any, generator: "Generator | None" = None, **settings: Any) -> "Tensor":
    """Uniform random numbers from 0 to 1.

    >>> tw.rand(2, 3).shape
    talweg.Size([2, 3])
    """
    _check_floats("rand", settings.get("dtype"))
    with from_generator(generator):
        return _native.rand(*size, **settings)


@public(method=False)
def randn(*size: Any, generator: "Generator | None" = None, **settings: Any) -> "Tensor":
    """Normal random numbers of mean 0 and variance 1.

    >>> tw.randn(2, 3).shape
    talweg.Size([2, 3])
    """
    _check_floats("randn", settings.get("dtype"))
    with from_generator(generator):
        return _native.randn(*size, **settings)


def _like(name: str, input: Any, dtype: Any, device: Any) -> "dict[str, Any]":
    if name:
        _check_floats(name, dtype or input.dtype)
    return {"dtype": dtype or input.dtype, "device": device or input.device}


@public(method=False)
def rand_like(
    input: "Tensor", *, dtype: "DTypeLike | None" = None, device: Any = None, generator: "Generator | None" = None, **settings: Any
) -> "Tensor":
    """Uniform random numbers from 0 to 1 in the shape of another tensor.

    >>> tw.rand_like(tw.zeros(2, 3)).shape
    talweg.Size([2, 3])
    """
    with from_generator(generator):
        return _native.rand(input.shape, **_like("rand_like", input, dtype, device), **settings)


@public(method=False)
def randn_like(
    input: "Tensor", *, dtype: "DTypeLike | None" = None, device: Any = None, generator: "Generator | None" = None, **settings: Any
) -> "Tensor":
    """Normal random numbers in the shape of another tensor.

    >>> tw.randn_like(tw.zeros(2, 3)).shape
    talweg.Size([2, 3])
    """
    with from_generator(generator):
        return _native.randn(input.shape, **_like("randn_like", input, dtype, device), **settings)


@public(method=False)
def randint(
    *args: Any, low: "int | None" = None, high: "int | None" = None, size: Any = None, generator: "Generator | None" = None,
    out: Any = None, dtype: "DTypeLike | None" = None, layout: Any = None, device: Any = None, requires_grad: bool = False,
    pin_memory: bool = False,
) -> "Tensor":  # fmt: skip
    """Whole random numbers from ``low`` up to but not including ``high``: ``randint(high, size)`` or
    ``randint(low, high, size)``.

    >>> tw.randint(10, (2, 3)).shape, tw.randint(3, 5, size=(2,)).shape
    (talweg.Size([2, 3]), talweg.Size([2]))
    """
    rest = list(args)
    if size is None and rest:
        size = rest.pop()
    if high is None and rest:
        high = rest.pop()
    if low is None:
        low = rest.pop() if rest else 0
    if rest or high is None or size is None:
        raise type_error("randint: expected randint(high, size) or randint(low, high, size)")
    with from_generator(generator):
        x = _native.randint(low, high, size, dtype=dtype)
    return finished(x, device, requires_grad, layout, out)


@public(method=False)
def randint_like(input: "Tensor", *args: int, dtype: "DTypeLike | None" = None, device: Any = None, **settings: Any) -> "Tensor":
    """Whole random numbers in the shape and type of another tensor: ``randint_like(x, high)`` or
    ``randint_like(x, low, high)``.

    >>> tw.randint_like(tw.zeros(2), 5).dtype
    talweg.float32
    """
    return randint(*args, size=input.shape, **_like("", input, dtype, device), **settings)


@public(method=False)
def randperm(
    n: int, *, generator: "Generator | None" = None, out: Any = None, dtype: "DTypeLike | None" = None, layout: Any = None,
    device: Any = None, requires_grad: bool = False, pin_memory: bool = False,
) -> "Tensor":  # fmt: skip
    """The numbers 0 to n - 1 in a random order.

    >>> sorted(tw.randperm(4).tolist())
    [0, 1, 2, 3]
    """
    with from_generator(generator):
        x = _native.randperm(n)
    return finished(x if dtype is None else x.astype(dtype), device, requires_grad, layout, out)


@public(method=False)
def normal(mean: Any = 0.0, std: Any = 1.0, size: Any = None, *, generator: "Generator | None" = None, **settings: Any) -> "Tensor":
    """Normal random numbers; mean and standard deviation are numbers, with ``size``, or tensors.

    >>> tw.normal(0.0, 1.0, (2, 3)).shape, tw.normal(tw.zeros(4), 0.1).shape
    (talweg.Size([2, 3]), talweg.Size([4]))
    """
    if not isinstance(std, Tensor) and std < 0 or isinstance(std, Tensor) and not std.is_symbolic and bool((std < 0).any()):
        raise value_error(f"normal: std must be at least 0, not {std.min().item() if isinstance(std, Tensor) else std}")
    if size is None:
        tensors = [t for t in (mean, std) if isinstance(t, Tensor)]
        if not tensors:
            raise type_error("normal: of two numbers a size is needed")
        size = (tensors[0] + (tensors[1] if len(tensors) > 1 else 0)).shape
        settings = {"dtype": tensors[0].dtype, **settings}
    out = settings.pop("out", None)
    requires_grad = settings.pop("requires_grad", False)
    with from_generator(generator):
        x = _native.randn(size, **settings)
    return finished(x * std + mean, None, requires_grad, None, out)


def _chances(name: str, p: "Tensor") -> "Tensor":
    """Probabilities; in a trace they are not known."""
    if not p.is_symbolic and not bool(((p >= 0) & (p <= 1)).all()):
        raise value_error(f"{name}: probabilities must lie between 0 and 1")
    return p


@public
def bernoulli(input: "Tensor", p: "float | None" = None, *, generator: "Generator | None" = None) -> "Tensor":
    """1 with the probability that each element states, or ``p`` for all, else 0.

    >>> tw.bernoulli(tw.tensor([0.0, 1.0]))
    tensor([0., 1.])
    """
    if p is not None and not 0 <= p <= 1:
        raise value_error(f"bernoulli: p must lie between 0 and 1, not {p}")
    chance = _chances("bernoulli", input) if p is None else _native.full_like(input, p, dtype="float32")
    with from_generator(generator):
        return ops.random_bernoulli(_native.random_key(), chance).astype(input.dtype)


@public
def multinomial(input: "Tensor", num_samples: int, replacement: bool = False, *, generator: "Generator | None" = None) -> "Tensor":
    """Indices drawn by the weights along the last dimension.

    >>> tw.multinomial(tw.tensor([0.0, 1.0]), 3, replacement=True)
    tensor([1, 1, 1])
    """
    if input.ndim not in (1, 2):
        raise value_error(f"multinomial: expected one or two dimensions of weights, not {input.ndim}")
    if not replacement and num_samples > input.shape[-1]:
        raise value_error(f"multinomial: {num_samples} of {input.shape[-1]} cannot be drawn without replacement")
    if not input.is_symbolic:
        # A sum of finite weights may be infinite.
        if not bool((((input >= 0) & input.isfinite()).all(-1) & (input > 0).any(-1)).all()):
            raise value_error("multinomial: weights must be finite and at least 0, and some of each row greater than 0")
    weights = ops.log(input)
    with from_generator(generator):
        shape = (*input.shape[:-1], num_samples, input.shape[-1]) if replacement else tuple(input.shape)
        # The largest of weights with Gumbel noise is drawn by the weights, and the k largest without replacement.
        noise = -ops.log(ops.random_exponential(_native.random_key(), shape))
    if replacement:
        return ops.argmax(ops.unsqueeze(weights, -2) + noise, -1)
    return ops.top_k(weights + noise, num_samples, -1)[1]


def _drawn(name: str, self: "Tensor", is_allowed: bool, what: str) -> None:
    """Fails for settings of a distribution that it does not have, and for integers."""
    if not is_allowed:
        raise value_error(f"{name}: {what}")
    if not self.dtype.is_floating_point and not self.dtype.is_complex:
        raise type_error(f"{name}: expected floats, not {self.dtype}: random_ draws integers")


@public(function=False)
def uniform_(self: "Tensor", a: float = 0.0, b: float = 1.0, *, generator: "Generator | None" = None, **named: float) -> "Tensor":
    """Uniform random numbers from ``a`` to ``b``, in place."""
    a, b = named.get("from", a), named.get("to", b)
    _drawn("uniform_", self, a <= b, f"from must not be greater than to, but {a} > {b}")
    with from_generator(generator):
        return self.copy_(_native.rand(self.shape, dtype=self.dtype) * (b - a) + a)


@public(function=False)
def normal_(self: "Tensor", mean: float = 0.0, std: float = 1.0, *, generator: "Generator | None" = None) -> "Tensor":
    """Normal random numbers, in place."""
    _drawn("normal_", self, std >= 0, f"std must be at least 0, not {std}")
    with from_generator(generator):
        return self.copy_(_native.randn(self.shape, dtype=self.dtype) * std + mean)


@public(function=False)
def log_normal_(self: "Tensor", mean: float = 1.0, std: float = 2.0, *, generator: "Generator | None" = None) -> "Tensor":
    """Numbers whose logarithm is normal, in place."""
    _drawn("log_normal_", self, std > 0, f"std must be greater than 0, not {std}")
    with from_generator(generator):
        return self.copy_(ops.exp(_native.randn(self.shape, dtype=self.dtype) * std + mean))


@public(function=False)
def exponential_(self: "Tensor", lambd: float = 1.0, *, generator: "Generator | None" = None) -> "Tensor":
    """Exponentially distributed numbers, in place."""
    _drawn("exponential_", self, lambd > 0, f"lambd must be greater than 0, not {lambd}")
    with from_generator(generator):
        return self.copy_(ops.random_exponential(_native.random_key(), tuple(self.shape)) / lambd)


@public(function=False)
def cauchy_(self: "Tensor", median: float = 0.0, sigma: float = 1.0, *, generator: "Generator | None" = None) -> "Tensor":
    """Cauchy distributed numbers, in place."""
    _drawn("cauchy_", self, sigma > 0, f"sigma must be greater than 0, not {sigma}")
    with from_generator(generator):
        angle = (_native.rand(self.shape) - 0.5) * 3.141592653589793
    return self.copy_(ops.tan(angle) * sigma + median)


@public(function=False)
def geometric_(self: "Tensor", p: float, *, generator: "Generator | None" = None) -> "Tensor":
    """How many draws a success of probability ``p`` takes, in place."""
    import math

    if not 0 < p < 1:
        raise value_error(f"geometric_: p must lie between 0 and 1, not {p}")
    with from_generator(generator):
        drawn = ops.random_exponential(_native.random_key(), tuple(self.shape))
    return self.copy_(ops.clamp_min(ops.ceil(drawn / -math.log1p(-p)), 1.0))


@public(function=False)
def bernoulli_(self: "Tensor", p: Any = 0.5, *, generator: "Generator | None" = None) -> "Tensor":
    """1 with probability ``p``, else 0, in place."""
    if not isinstance(p, Tensor) and not 0 <= p <= 1:
        raise value_error(f"bernoulli_: p must lie between 0 and 1, not {p}")
    with from_generator(generator):
        chance = ops.broadcast_to(_chances("bernoulli_", p) if isinstance(p, Tensor) else _native.tensor(float(p)), self.shape)
        return self.copy_(ops.random_bernoulli(_native.random_key(), chance))


@public(function=False)
def random_(self: "Tensor", *ends: int, generator: "Generator | None" = None, **named: int) -> "Tensor":
    """Whole random numbers in place: below ``to``, or from ``from`` on; else as many as the type holds."""
    low, high = (ends[0], ends[1]) if len(ends) == 2 else (named.get("from", 0), ends[0] if ends else named.get("to"))
    if high is None:
        name = self.dtype.name
        bits = {"float32": 24, "float64": 53, "float16": 11, "bfloat16": 8, "bool": 1}.get(name)
        high = 2**bits + (name != "bool") if bits else min(PUBLIC["iinfo"](self.dtype).max, 2**63 - 2) + 1
    with from_generator(generator):
        return self.copy_(_native.randint(low, high, tuple(self.shape)))
