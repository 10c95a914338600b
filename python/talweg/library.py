"""Custom ops: composites, Python functions, kernels in C and in CUDA C, with shape rules and gradients.

>>> @tw.library.custom_op("mylib::twice", mutates_args=())
... def twice(x: tw.Tensor) -> tw.Tensor:
...     return tw.asarray(x.numpy() * 2)
>>> @twice.register_fake
... def _(x):
...     return tw.empty_like(x)
>>> twice(tw.ones(2))
tensor([2., 2.])

See docs/custom-ops.md.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import inspect
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from . import _native
from ._checked import type_error, value_error
from ._native import Tensor

_Rule = Callable[..., Any]
_ops: dict[str, CustomOpDef] = {}


class CustomOpDef:
    """An op: call it with tensors, and with other arguments, which are part of the op.

    The kernel, ``register_fake``, ``register_autograd`` and ``register_kernel`` may be given in any order before the
    first call; registering again replaces.
    """

    def __init__(self, name: str, vmap_method: str = "sequential") -> None:
        self.name, self._vmap_method = name, vmap_method
        self._kernel: Any = None
        self._fake: _Rule | None = None
        self._backward: _Rule | None = None
        self._setup: _Rule | None = None
        self._cuda: tuple[str, str] | None = None
        self._made: Any = None
        self._signature: inspect.Signature | None = None
        self.__name__ = name.rsplit("::", 1)[-1]

    def __repr__(self) -> str:
        return f"<op {self.name}>"

    def _changed(self) -> None:
        self._made = functools.lru_cache(maxsize=256)(self._make)

    def register_fake(self, fn: _Rule) -> _Rule:
        """The shape rule: gets the arguments with stand-ins for tensors, returns tensors of the results' types."""
        self._fake = fn
        self._changed()
        return fn

    def register_kernel(self, device_types: str | Sequence[str], fn: _Rule | None = None) -> Any:
        """Another Python function for the host: ``"cpu"``. Values of a GPU are copied to the host and back."""
        kinds = [device_types] if isinstance(device_types, str) else list(device_types)
        if kinds != ["cpu"]:
            raise value_error(f"register_kernel: a Python function runs on 'cpu', not {kinds}; GPUs take CUDA C: cuda=")
        if fn is None:
            return functools.partial(self.register_kernel, device_types)
        self._kernel = fn
        self._changed()
        return fn

    def register_autograd(self, backward: _Rule, /, *, setup_context: _Rule | None = None) -> None:
        """The gradient, as in PyTorch: ``setup_context(ctx, inputs, output)`` notes what ``backward(ctx, *grads)``
        uses; it returns a gradient for each argument, ``None`` for zero."""
        self._backward, self._setup, self._is_plain = backward, setup_context, False
        self._changed()

    def gradient(self, rule: _Rule) -> _Rule:
        """The gradient as one rule: ``rule(inputs, outputs, gradients)`` returns a gradient for each tensor."""
        self._backward, self._setup, self._is_plain = rule, None, True
        self._changed()
        return rule

    _is_plain = False

    def _make(self, form: tuple[Any, ...]) -> tuple[Any, list[Any]]:
        """The native op for arguments of one form: ``None`` where a tensor stands, else the value."""

        def filled(tensors: Iterable[Tensor]) -> list[Any]:
            it = iter(tensors)
            return [next(it) if slot is _TENSOR else slot for slot in form]

        shape: list[Any] = []

        def fake(*tensors: Tensor) -> Any:
            if self._fake is None:
                raise value_error(f"{self.name}: the types of its results are not known: register_fake a shape rule")
            out = self._fake(*filled(tensors))
            shape[:] = [type(out) if isinstance(out, (tuple, list)) else None]
            return out

        kernel = self._kernel
        if kernel is not None and callable(kernel):
            kernel = functools.partial(_run, self._kernel, filled)
        rule = None
        if self._backward is not None:
            rule = self._backward if self._is_plain else functools.partial(_backward, self, form, filled)
        return _native.CustomOp(self.name, kernel, None, fake, rule, self._cuda, self._vmap_method), shape

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._made is None:
            self._changed()
        if self._signature is not None:
            try:
                bound = self._signature.bind(*args, **kwargs)
            except TypeError as e:
                raise type_error(f"{self.name}: {e}; it takes {self._signature}") from None
            bound.apply_defaults()
            args = (*bound.args, *bound.kwargs.values())
        elif kwargs:
            raise type_error(f"{self.name} takes its arguments by position, not {', '.join(kwargs)}=")
        args = tuple(_native.tensor(a) if hasattr(a, "__array__") and not isinstance(a, Tensor) else a for a in args)
        tensors = [a for a in args if isinstance(a, Tensor)]
        try:
            native, shape = self._made(tuple(_TENSOR if isinstance(a, Tensor) else a for a in args))
        except TypeError:
            what = f"{self.name}: arguments that are no tensors must be hashable: numbers, strings, tuples"
            raise type_error(what) from None
        outs = native(tensors, False)
        return outs[0] if shape[0] is None else shape[0](outs)


class _Slot:
    """Stands for a tensor among the arguments."""


_TENSOR = _Slot()


def _run(kernel: _Rule, filled: _Rule, *tensors: Tensor) -> Any:
    return kernel(*filled(tensors))


class Context:
    """What a gradient's two halves share."""

    saved_tensors: tuple[Tensor, ...] = ()
    needs_input_grad: tuple[bool, ...] = ()

    def save_for_backward(self, *tensors: Tensor) -> None:
        """Keeps tensors for the gradient."""
        self.saved_tensors = tensors


def _backward(op: CustomOpDef, form: tuple[Any, ...], filled: _Rule, xs: Any, ys: Any, grads: Any) -> list[Any]:
    ctx = Context()
    inputs = tuple(filled(xs))
    ctx.needs_input_grad = tuple(slot is _TENSOR for slot in form)
    if op._setup is not None:
        op._setup(ctx, inputs, ys[0] if len(ys) == 1 else tuple(ys))
    assert op._backward is not None
    out = op._backward(ctx, *grads)
    out = out if isinstance(out, (tuple, list)) else (out,)
    if len(out) != len(form):
        raise value_error(f"{op.name}: backward returned {len(out)} gradients, not one for each of {len(form)} arguments")
    return [g for g, slot in zip(out, form) if slot is _TENSOR]


def custom_op(
    name: str,
    fn: _Rule | None = None,
    /,
    *,
    mutates_args: str | Iterable[str],
    device_types: str | Sequence[str] | None = None,
    schema: str | None = None,
) -> Any:
    """Makes an op of a Python function, which runs on the host when a graph runs: ``jit`` and ``vmap`` do not look
    inside. It needs a shape rule (``register_fake``), and a gradient (``register_autograd``) to be differentiated.

    An op cannot change its arguments: ``mutates_args`` must be ``()``.
    """
    if mutates_args == "unknown" or tuple(mutates_args):
        raise value_error(f"{name}: an op cannot change its arguments: return new tensors, with mutates_args=()")
    if schema is not None:
        raise value_error(f"{name}: schema= is not needed: arguments are tensors, or constants of the op")
    if device_types not in (None, "cpu", ["cpu"], ("cpu",)):
        raise value_error(f"{name}: a Python function runs on 'cpu', not on {device_types}; GPUs take CUDA C: op(cuda=)")
    if fn is None:
        return functools.partial(custom_op, name, mutates_args=mutates_args)
    op = _defined(name)
    op.register_kernel("cpu", fn)
    op._signature = inspect.signature(fn)
    op.__doc__ = fn.__doc__
    return op


def op(
    name: str,
    *,
    fake: _Rule,
    c: str | None = None,
    address: int | Any = None,
    python: _Rule | None = None,
    cuda: str | None = None,
    function: str | None = None,
    gradient: _Rule | None = None,
    flags: Sequence[str] = (),
    vmap_method: str = "sequential",
) -> CustomOpDef:
    """Makes an op with a kernel for the host, for GPUs, or both.

    - ``c``: source in C with a function of the op's name (or ``function``) that gets a pointer for each input, then
      for each output, then ``const int64_t *sizes``: the dimensions of all inputs and outputs, one after the other.
      It is compiled with the system's compiler (``$CC``, ``cc``) when the op is defined.
    - ``address``: a function pointer of ctypes or cffi, or its address:
      ``int f(const void **inputs, void **outputs, const int64_t *sizes)``; what it returns, unless 0, is an error.
    - ``python``: a function of tensors.
    - ``cuda``: CUDA C with a ``__device__`` function of the op's name (or ``function``) that computes element ``i`` of
      the first output: ``long long i``, then a pointer for each input and output. ``sizes`` are constants as in C.
      NVRTC compiles it when a graph is first compiled for a GPU. Without it values go to the host and back.

    ``fake`` is the shape rule: it gets stand-ins and returns tensors of the results' types. ``gradient(inputs, outputs,
    gradients)`` returns a gradient for each input.

    A kernel must keep to the memory it is given: sizes and element types are for ``fake`` to check.

    >>> source = "void scale(const float *x, float *y, const int64_t *n) { for (int64_t i = 0; i < n[0]; i++) y[i] = 3 * x[i]; }"
    >>> scale = tw.library.op("scale", c=source, fake=tw.empty_like, gradient=lambda xs, ys, gs: [gs[0] * 3])
    >>> tw.jit(scale)(tw.ones(2))
    tensor([3., 3.])
    """
    given = [k for k in (c, address, python) if k is not None]
    if len(given) > 1:
        raise value_error(f"{name}: one kernel for the host: c=, address= or python=")
    if not given and cuda is None:
        raise value_error(f"{name}: a kernel is needed: c=, address=, python= or cuda=")
    made = _defined(name, vmap_method)
    entry = function or made.__name__
    if not re.fullmatch(r"[A-Za-z_]\w*", entry):
        raise value_error(f"{name}: {entry!r} is no name of a function: give function=")
    made._fake = fake
    if c is not None:
        made._kernel = _compiled(name, entry, c, tuple(flags), _counts(name, c, entry))
    elif address is not None:
        made._kernel = _pointer(name, address)
    else:
        made._kernel = python
    if cuda is not None:
        if not re.search(rf"\b{entry}\s*\(", cuda):
            raise value_error(f"{name}: the CUDA source has no function {entry}: give function=")
        made._cuda = (cuda, entry)
    if gradient is not None:
        made.gradient(gradient)
    made._changed()
    return made


def _defined(name: str, vmap_method: str = "sequential") -> CustomOpDef:
    if not name or not isinstance(name, str):
        raise type_error(f"op: expected a name such as 'mylib::scale', not {name!r}")
    _ops[name] = CustomOpDef(name, vmap_method)
    return _ops[name]


def get_op(name: str) -> CustomOpDef:
    """The op that was defined with this name."""
    if name not in _ops:
        raise value_error(f"get_op: there is no op {name!r}; defined are {', '.join(sorted(_ops)) or 'none'}")
    return _ops[name]


def _counts(name: str, source: str, entry: str) -> int:
    """How many pointers a function in C takes, the sizes included."""
    found = re.search(rf"\b{entry}\s*\(([^)]*)\)\s*\{{", source)
    if found is None:
        raise value_error(f"{name}: the C source has no function {entry}: give function=")
    params = [p for p in found.group(1).split(",") if p.strip()]
    if len(params) < 2 or not all("*" in p or "[" in p for p in params):
        e = f"{name}: {entry} must take a pointer for each input and output, then const int64_t *sizes"
        raise value_error(f"{e}; it takes ({', '.join(p.strip() for p in params)})")
    return len(params)


def _compiler() -> str | None:
    named = os.environ.get("CC")
    return shutil.which(named) if named else next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)


@functools.lru_cache(maxsize=None)
def _compiled(name: str, entry: str, source: str, flags: tuple[str, ...], params: int) -> tuple[int, int, Any]:
    """The address of a function in C, how many tensors it takes, and the library it is in."""
    compiler = _compiler()
    if compiler is None:
        e = f"{name}: no C compiler was found (cc, gcc, clang, or what CC names)"
        raise value_error(f"{e}: install one, or give the kernel as address= or python=")
    returns_int = re.search(rf"\bint\s+{entry}\s*\(", source) is not None
    # The pointers to the outputs follow those to the inputs in one list.
    pointers = ", ".join(f"in[{k}]" for k in range(params - 1))
    call = f"{entry}({pointers}, sizes)"
    body = f"return {call};" if returns_int else f"{call}; return 0;"
    wrapper = f"\nint talweg_call(void **in, void **out, const int64_t *sizes) {{ {body} }}\n"
    unit = f"#include <stdint.h>\n#include <stddef.h>\n#line 1 \"{name}\"\n{source}{wrapper}"
    folder = Path(tempfile.mkdtemp(prefix="talweg-op-"))
    try:
        stem = hashlib.sha256(unit.encode()).hexdigest()[:16]
        text, library = folder / f"{stem}.c", folder / f"{stem}.so"
        text.write_text(unit)
        command = [compiler, "-O3", "-march=native", "-shared", "-fPIC", "-w", *flags, "-o", str(library), str(text), "-lm"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise value_error(f"{name}: the C source does not compile:\n{done.stderr.strip()}")
        loaded = ctypes.CDLL(str(library))
    finally:
        # The loaded library stays mapped.
        shutil.rmtree(folder, ignore_errors=True)
    at = ctypes.cast(loaded.talweg_call, ctypes.c_void_p).value
    assert at is not None
    return at, params - 1, loaded


def _pointer(name: str, given: Any) -> tuple[int, int, Any]:
    if isinstance(given, int):
        return given, 0, None
    if isinstance(given, (str, bytes)):
        raise type_error(f"{name}: address= takes a function pointer or an address, not {type(given).__name__}")
    try:
        at = ctypes.cast(given, ctypes.c_void_p).value
    except (ctypes.ArgumentError, TypeError):
        at = None
        if hasattr(given, "__int__"):
            at = int(given)
        elif type(given).__module__ == "_cffi_backend":
            import cffi  # type: ignore[import-untyped]

            at = int(cffi.FFI().cast("intptr_t", given))
    if not at:
        raise type_error(f"{name}: address= takes a function pointer or an address, not {type(given).__name__}")
    return at, 0, given


__all__ = ["CustomOpDef", "custom_op", "get_op", "op"]
