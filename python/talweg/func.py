"""Functions of functions, with PyTorch's names: derivatives, batching, modules as functions.

A function is called with real tensors, so that Python's ``if`` may look at their values; only what runs under ``vmap``
is traced. All nest in each other and in ``jit``, and take containers of tensors.

>>> slope = tw.func.grad(lambda x: (x**3).sum())
>>> tw.func.vmap(slope)(tw.tensor([1.0, 2.0])).tolist()
[3.0, 12.0]
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

from . import _native, _tree
from ._checked import type_error, value_error
from ._native import Tensor
from ._state import enable_grad
from .errors import GradientError

__all__ = [
    "functional_call",
    "grad",
    "grad_and_value",
    "hessian",
    "jacfwd",
    "jacrev",
    "jvp",
    "linearize",
    "stack_module_state",
    "vjp",
    "vmap",
]


def _check_function(what, f):
    if isinstance(f, Tensor):
        raise type_error(
            f"{what} takes a function, not a tensor: to differentiate what was computed, write tw.autograd.grad(cost, [w, b])"
        )
    if not callable(f):
        raise type_error(f"{what} takes a function, not {type(f).__name__}")


class _Level:
    """The tensors that a function is differentiated for, while it is called.

    They become separate nodes, so that levels nest: what one level is differentiated for is an ordinary value to
    those around it.
    """

    def __init__(self, what, trees):
        leaves, self._form = _tree.flatten(trees)
        tensors = _tree.tensors(leaves)
        if not tensors:
            raise type_error(f"{what}: there is no tensor in the arguments to differentiate for")
        self.xs = _native.autograd_tracked(tensors)
        # The function may change what it gets in place: that must not change what is differentiated for.
        with enable_grad():
            given = iter([x.clone() for x in self.xs])
        self.args = _tree.unflatten(self._form, [next(given) if isinstance(x, Tensor) else x for x in leaves])
        self._others = leaves

    def pull(self, outs, cotangents):
        """Gradients for each tensor of the arguments; zeros where nothing depends on one."""
        with enable_grad():
            found = _native.autograd_pull(outs, cotangents, self.xs)
            return [_native.zeros_like(x.detach()) if g is None else g for g, x in zip(found, self.xs)]

    def tree(self, tensors):
        """Tensors in the form of the arguments."""
        tensors = iter(tensors)
        return _tree.unflatten(self._form, [next(tensors) if isinstance(x, Tensor) else x for x in self._others])

    def settled(self, tree):
        """Results without the record that belongs to this level."""
        leaves, form = _tree.flatten(tree)
        done = iter(_native.autograd_settled(_tree.tensors(leaves), self.xs))
        return _tree.unflatten(form, [next(done) if isinstance(x, Tensor) else x for x in leaves])


def _chosen(what, argnums, args):
    """The numbers of the arguments that are differentiated for."""
    numbers = [argnums] if isinstance(argnums, int) else list(argnums)
    for n in numbers:
        if not isinstance(n, int) or not -len(args) <= n < len(args):
            raise value_error(f"{what}: there is no argument {n}: {len(args)} were given")
    return [n % len(args) for n in numbers]


def _entered(what, argnums, args):
    """A level for some arguments, and all arguments with its tensors in them."""
    numbers = _chosen(what, argnums, args)
    level = _Level(what, tuple(args[n] for n in numbers))
    args = list(args)
    for n, given in zip(numbers, level.args):
        args[n] = given
    return level, args


def _with_aux(what, out, has_aux):
    if not has_aux:
        return out, None
    if not isinstance(out, (tuple, list)) or len(out) != 2:
        raise type_error(f"{what}: with has_aux=True the function must return a pair of its result and what else it returns")
    return tuple(out)


def _scalar(what, y):
    if not isinstance(y, Tensor):
        raise type_error(f"{what}: the function must return a tensor, not {type(y).__name__}")
    if y.numel() != 1 or not y.dtype.is_floating_point:
        e = f"{what}: the function must return a float of one element, but it returns {y.dtype.name}{list(y.shape)}"
        raise GradientError(_native.located(e))
    return y


def grad_and_value(func: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that returns the gradient of ``func`` and its value; with ``has_aux``, gradient and ``(value, aux)``.

    >>> slope, value = tw.func.grad_and_value(lambda x: x**3)(tw.tensor(2.0))
    >>> slope.item(), value.item()
    (12.0, 8.0)
    """
    return _grad_and_value("grad_and_value", func, argnums, has_aux)


def _grad_and_value(what, func, argnums, has_aux):
    _check_function(what, func)

    @functools.wraps(func)
    def both(*args, **kwargs):
        level, given = _entered(what, argnums, args)
        with enable_grad():
            value, aux = _with_aux(what, func(*given, **kwargs), has_aux)
            value = _scalar(what, value)
            found = level.tree(level.pull([value], [_native.ones_like(value.detach())]))
        found = found[0] if isinstance(argnums, int) else found
        return level.settled((found, (value, aux) if has_aux else value))

    return both


def grad(func: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that returns the gradient of ``func``, a function with a scalar result, with respect to the arguments
    ``argnums``; with ``has_aux``, gradient and ``aux``.

    >>> tw.func.grad(tw.func.grad(lambda x: x**3))(tw.tensor(2.0)).item()
    12.0
    """
    both = _grad_and_value("grad", func, argnums, has_aux)

    @functools.wraps(func)
    def gradient(*args, **kwargs):
        found, value = both(*args, **kwargs)
        return (found, value[1]) if has_aux else found

    return gradient


def _results(what, out):
    """The tensors of a result, all of which must be floats, and its form."""
    leaves, form = _tree.flatten(out)
    for y in leaves:
        if not isinstance(y, Tensor):
            raise type_error(f"{what}: the function must return tensors, not {type(y).__name__}")
    return leaves, form


def _like(what, leaves, form, tree, name):
    """The tensors of another tree of the same form."""
    others, other = _tree.flatten(tree)
    if other != form or len(others) != len(leaves):
        raise value_error(f"{what}: the {name} must have the structure of what they belong to")
    return [_native.tensor(t) if not isinstance(t, Tensor) else t for t in others]


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> tuple[Any, ...]:
    """The result of ``func``, and a function from cotangents of the result to gradients of the arguments.

    >>> y, pullback = tw.func.vjp(lambda x: x * x, tw.tensor([1.0, 3.0]))
    >>> pullback(tw.tensor([1.0, 10.0]))
    (tensor([ 2., 60.]),)
    """
    _check_function("vjp", func)
    level = _Level("vjp", primals)
    with enable_grad():
        out, aux = _with_aux("vjp", func(*level.args), has_aux)
    outs, form = _results("vjp", out)

    def pullback(cotangents, retain_graph=True, create_graph=None):
        given = _like("vjp", outs, form, cotangents, "cotangents")
        found = level.settled(level.tree(level.pull(outs, given)))
        return tuple(found)

    done = level.settled(out)
    return (done, pullback, level.settled(aux)) if has_aux else (done, pullback)


def _pushed(what, func, primals, has_aux):
    """A level, the result of a function, and the two parts of a Jacobian-vector product: gradients of the arguments as
    linear functions of cotangents ``us``."""
    level = _Level(what, primals)
    with enable_grad():
        out, aux = _with_aux(what, func(*level.args), has_aux)
        outs, form = _results(what, out)
        us = _native.autograd_tracked([_native.zeros_like(y.detach()) for y in outs]) if outs else []
        found = _native.autograd_pull(outs, us, level.xs)
    return level, out, aux, outs, form, us, found


def _push(found, us, tangents, outs, strict=False):
    """Derivatives of the results along tangents of the arguments."""
    with enable_grad():
        pairs = [(g, t) for g, t in zip(found, tangents) if g is not None]
        moved = _native.autograd_pull([g for g, _ in pairs], [t for _, t in pairs], us)
        if strict and None in moved:
            e = f"with strict=True every result must depend on the arguments, but result {moved.index(None)} does not"
            raise GradientError(_native.located(e))
        return [_native.zeros_like(y.detach()) if d is None else d for d, y in zip(moved, outs)]


def jvp(
    func: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any], *, strict: bool = False, has_aux: bool = False
) -> tuple[Any, ...]:
    """The result of ``func``, and how it changes as its arguments move along ``tangents``.

    >>> y, dy = tw.func.jvp(lambda x: x * x, (tw.tensor(3.0),), (tw.tensor(1.0),))
    >>> y.item(), dy.item()
    (9.0, 6.0)
    """
    _check_function("jvp", func)
    for name, given in [("primals", primals), ("tangents", tangents)]:
        if not isinstance(given, (tuple, list)):
            raise type_error(f"jvp: expected a tuple of {name}, not {type(given).__name__}")
    if len(primals) != len(tangents):
        raise value_error(f"jvp: {len(primals)} arguments, but {len(tangents)} tangents")
    level, out, aux, outs, form, us, found = _pushed("jvp", func, tuple(primals), has_aux)
    moved = _push(found, us, _tangents("jvp", level, tangents), outs, strict)
    done, changes = level.settled(out), level.settled(_tree.unflatten(form, moved))
    return (done, changes, level.settled(aux)) if has_aux else (done, changes)


def _tangents(what, level, tangents):
    given = _tree.tensors([_native.tensor(t) if not isinstance(t, Tensor) else t for t in _tree.flatten(tuple(tangents))[0]])
    if len(given) != len(level.xs):
        raise value_error(f"{what}: the tangents must have the structure of the arguments")
    for t, x in zip(given, level.xs):
        if tuple(t.shape) != tuple(x.shape):
            raise value_error(f"{what}: a tangent of shape {list(t.shape)} for an argument of shape {list(x.shape)}")
    return given


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """The result of ``func``, and a function from tangents of the arguments to those of the result, which computes
    ``func`` no more.

    >>> y, push = tw.func.linearize(lambda x: x * x, tw.tensor(3.0))
    >>> push(tw.tensor(1.0)).item(), push(tw.tensor(2.0)).item()
    (6.0, 12.0)
    """
    _check_function("linearize", func)
    level, out, _, outs, form, us, found = _pushed("linearize", func, primals, False)

    def push(*tangents):
        moved = _push(found, us, _tangents("linearize", level, tangents), outs)
        return level.settled(_tree.unflatten(form, moved))

    return level.settled(out), push


def _basis(t):
    """Each unit vector of a tensor's shape."""
    n = t.numel()
    return Tensor.reshape(_native.eye(n, dtype=t.dtype), (n, *t.shape))


def _over(f, rows, chunk_size, randomness="error"):
    """``f`` of each row; a list of tensors."""
    size = rows.shape[0]
    step = size if chunk_size is None else chunk_size
    parts = [_native.vmap(f, (rows[i : i + step],), [0], 0, randomness) for i in range(0, size, step)]
    return list(parts[0]) if len(parts) == 1 else [Tensor.concat(list(p), 0) for p in zip(*parts)]


def _derivatives(what, func, argnums, has_aux, args, kwargs, by_outputs):
    """The Jacobian of a function at a point, by ``by_outputs(level, outs)``: for each result a list for each argument."""
    numbers = _chosen(what, argnums, args)
    held = {}

    def inner(*chosen):
        given = list(args)
        for n, x in zip(numbers, chosen):
            given[n] = x
        out, held["aux"] = _with_aux(what, func(*given, **kwargs), has_aux)
        return out

    level, out, outs, form, rows = by_outputs(what, inner, tuple(args[n] for n in numbers))
    single = isinstance(argnums, int)
    trees = [level.tree(r) for r in rows]
    done = level.settled(_tree.unflatten(form, [t[0] if single else t for t in trees]))
    return (done, level.settled(held["aux"])) if has_aux else done


def jacrev(
    func: Callable[..., Any], argnums: int | Sequence[int] = 0, *, has_aux: bool = False, chunk_size: int | None = None
) -> Callable[..., Any]:
    """A function that returns the Jacobian of ``func``, one row (element of the result) after the other, in batches of
    ``chunk_size``.

    >>> tw.func.jacrev(lambda x: x * x)(tw.tensor([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """
    _check_function("jacrev", func)
    if chunk_size is not None and chunk_size < 1:
        raise value_error(f"jacrev: chunk_size must be positive, not {chunk_size}")

    def by_outputs(what, f, chosen):
        level = _Level(what, chosen)
        with enable_grad():
            out = f(*level.args)
            outs, form = _results(what, out)
            rows = []
            for y in outs:
                shapes = [(*y.shape, *x.shape) for x in level.xs]
                if not y.numel():
                    rows.append([_native.zeros(s, dtype=y.dtype) for s in shapes])
                    continue
                found = _over(lambda c, y=y: level.pull([y], [c]), _basis(y.detach()), chunk_size)
                rows.append([Tensor.reshape(g, s) for g, s in zip(found, shapes)])
        return level, out, outs, form, rows

    @functools.wraps(func)
    def jacobian(*args, **kwargs):
        return _derivatives("jacrev", func, argnums, has_aux, args, kwargs, by_outputs)

    return jacobian


def jacfwd(func: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that returns the Jacobian of ``func``, one column (element of the arguments) after the other.

    >>> tw.func.jacfwd(lambda x: x * x)(tw.tensor([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """
    _check_function("jacfwd", func)

    def by_inputs(what, f, chosen):
        level, out, _, outs, form, us, found = _pushed(what, f, chosen, False)
        columns = []
        for g, x in zip(found, level.xs):
            shapes = [(*y.shape, *x.shape) for y in outs]
            if g is None or not x.numel():
                columns.append([_native.zeros(s, dtype=y.dtype) for s, y in zip(shapes, outs)])
                continue
            moved = _over(lambda v, g=g: _push([g], us, [v], outs), _basis(x.detach()), None)
            columns.append([Tensor.reshape(Tensor.moveaxis(d, 0, -1), s) for d, s in zip(moved, shapes)])
        return level, out, outs, form, [list(row) for row in zip(*columns)]

    @functools.wraps(func)
    def jacobian(*args, **kwargs):
        return _derivatives("jacfwd", func, argnums, has_aux, args, kwargs, by_inputs)

    return jacobian


def hessian(func: Callable[..., Any], argnums: int | Sequence[int] = 0) -> Callable[..., Any]:
    """A function that returns the second derivatives of ``func``.

    >>> tw.func.hessian(lambda x: (x**3).sum())(tw.tensor([1.0, 2.0])).tolist()
    [[6.0, 0.0], [0.0, 12.0]]
    """
    _check_function("hessian", func)
    return jacfwd(jacrev(func, argnums), argnums)


def vmap(
    func: Callable[..., Any],
    in_dims: Any = 0,
    out_dims: Any = 0,
    randomness: str = "error",
    *,
    chunk_size: int | None = None,
    in_axes: Any = None,
    out_axes: Any = None,
) -> Callable[..., Any]:
    """A function that applies ``func`` to each member of a batch at once.

    ``in_dims`` says which dimension of each argument counts the members, ``None`` that all share it; it may be a container
    in the form of the arguments. ``out_dims`` says the same of the results. ``randomness``: drawing random numbers is an
    ``"error"``, or draws ``"different"`` or the ``"same"`` numbers for each member. With ``chunk_size`` that many members
    are computed at once. ``in_axes`` and ``out_axes`` are other names.

    >>> tw.vmap(lambda x: x.sum())(tw.ones(3, 4)).tolist()
    [4.0, 4.0, 4.0]
    >>> tw.vmap(lambda x, y: x @ y, in_dims=(0, None))(tw.ones(3, 4), tw.ones(4)).tolist()
    [4.0, 4.0, 4.0]
    """
    _check_function("vmap", func)
    if randomness not in ("error", "different", "same"):
        raise value_error(f"vmap: randomness must be 'error', 'different' or 'same', not {randomness!r}")
    if chunk_size is not None and chunk_size < 1:
        raise value_error(f"vmap: chunk_size must be positive, not {chunk_size}")
    in_dims = in_dims if in_axes is None else in_axes
    out_dims = out_dims if out_axes is None else out_axes

    @functools.wraps(func)
    def mapped(*args, **kwargs):
        leaves, form = _tree.flatten(args)
        call = functools.partial(func, **kwargs)
        return _batched(call, leaves, form, _in_dims(in_dims, args), out_dims, randomness, chunk_size)

    return mapped


def _in_dims(in_dims, args):
    """A dimension or ``None`` for each leaf of the arguments."""
    form = _tree.flatten(args)[1]
    prefix = tuple(in_dims) if isinstance(in_dims, list) else in_dims
    dims = _tree.of_prefix(prefix, form)
    if dims is None:
        raise value_error(f"vmap: in_dims {in_dims!r} does not have the structure of the {len(args)} arguments")
    return dims


def _batched(func, leaves, form, dims, out_dims, randomness, chunk_size):
    at = [i for i, d in enumerate(dims) if d is not None]
    for i in at:
        if not isinstance(leaves[i], Tensor):
            leaves[i] = _as_tensor(leaves[i], dims[i])
    if not at:
        raise value_error("vmap: no argument has a batch dimension: in_dims is None for all of them")
    held = {}

    def one(*tensors):
        every = list(leaves)
        for i, t in zip(at, tensors):
            every[i] = t
        outs, held["form"] = _results("vmap", func(*_tree.unflatten(form, every)))
        return outs

    rows = [Tensor.moveaxis(leaves[i], dims[i], 0) if dims[i] else leaves[i] for i in at]
    size = rows[0].shape[0] if rows[0].ndim else 0
    step = size if chunk_size is None else chunk_size
    run = lambda part: _native.vmap(one, tuple(part), [0] * len(part), 0, randomness)  # noqa: E731
    if step >= size:
        outs = list(run(rows))
    else:
        parts = [run([r[i : i + step] for r in rows]) for i in range(0, size, step)]
        outs = [Tensor.concat(list(p), 0) for p in zip(*parts)]
    wanted = _tree.of_prefix(tuple(out_dims) if isinstance(out_dims, list) else out_dims, held["form"])
    if wanted is None:
        raise value_error(f"vmap: out_dims {out_dims!r} does not have the structure of the result")
    done = [y[0] if d is None else Tensor.moveaxis(y, 0, d) if d else y for y, d in zip(outs, wanted)]
    return _tree.unflatten(held["form"], done)


def _as_tensor(x, dim):
    if hasattr(x, "__array__"):
        return _native.tensor(x)
    raise value_error(f"vmap: in_dims is {dim} for an argument that is {type(x).__name__}, not a tensor: say None for it")


def __getattr__(name):
    # These need modules, which are imported later.
    if name in ("functional_call", "stack_module_state"):
        from .nn.utils import stateless

        return getattr(stateless, name)
    if name == "functionalize":
        e = "func.functionalize does not exist: values never change, so every function is functional already; call it as it is"
        raise GradientError(_native.located(e))
    if name == "debug_unwrap":
        raise GradientError(_native.located("func.debug_unwrap does not exist: tensors are not wrapped; print them"))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
