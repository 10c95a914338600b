"""The module that a program of JAX becomes."""

# mypy: ignore-errors
import inspect

import numpy as np

import talweg as tw
from .. import _native
from .._checked import type_error, value_error
from ..nn.module import Module
from ..nn.parameter import Parameter
from . import bits, control, indices, matrices, products, windows  # noqa: F401  (their rows)
from .table import KNOWN, KNOWN_MAX, PREPARED, ROWS, Unsupported, dtype_of, is_float, is_known, tensor

# Operators whose bodies see the values around them.
_CONTROL = {"while", "if", "case"}


class _Run:
    """One run of a program: the values so far, by their numbers."""

    def __init__(self, env):
        self.env = env

    def __call__(self, block, values=()):
        """The results of a block for the values of its parameters."""
        env = self.env
        env.update(zip(block.params, values))
        for node in block.nodes:
            self.step(node)
        return [env[i] for i in block.results]

    def step(self, node):
        args = [self.env[i] for i in node.inputs]
        if node.name not in KNOWN:
            args = map(tensor, args)
        named = {"run": self} if node.blocks else {}
        if node.name in _CONTROL:
            named["env"] = self.env
        try:
            made = ROWS[node.name](node, *args, **named)
        except Unsupported as e:
            raise value_error(f"from_jax: {node.name}: {e} is not known here ({node.line or 'no line'})") from e
        made = made if isinstance(made, (tuple, list)) else (made,)
        if len(made) != len(node.outputs):
            raise RuntimeError(f"from_jax: {node.name} returned {len(made)} values, not {len(node.outputs)} ({node.line})")
        for i, value, type in zip(node.outputs, made, node.types):
            self.env[i] = _checked(node, value, type)


def _checked(node, value, type):
    """A result, whose type must be what the program says."""
    name = value.dtype.name
    if not is_known(value) and name != type.dtype and is_float(value.dtype) and is_float(dtype_of(type.dtype)):
        value, name = value.to(dtype_of(type.dtype)), type.dtype
    shape = tuple(value.shape)
    # Bodies of reductions run on many numbers at once.
    fits = len(shape) == len(type.shape) and all(m is None or n == m for n, m in zip(shape, type.shape))
    if name != type.dtype or not (fits or type.shape == ()):
        raise RuntimeError(f"from_jax: {node.name} is {name}{list(shape)} here, not {type} ({node.line})")
    return value


def _walk(block):
    """All nodes, also those inside of others."""
    for node in block.nodes:
        yield block, node
        for inner in node.blocks:
            yield from _walk(inner)


class JaxProgram(Module):
    """A function of JAX, in ordinary ops: it can be compiled, differentiated, exported and served.

    A call takes and returns the containers that the function does. `parameters()` are the arrays of the arguments that
    were named as `params`, and the arrays that the function closed over as ``constant_0`` and so on; the latter do not
    train unless ``requires_grad_`` says so.
    """

    def __init__(self, block, in_tree, out_tree, kept=None, leading=()):
        super().__init__()
        sources, constants = {}, []
        for owner, node in _walk(block):
            sources.update(dict.fromkeys(node.outputs, node))
            if node.name == "constant" and _is_weight(node.attrs["value"]):
                constants.append((owner, node))
        bound = {}
        for owner, node in constants:
            name = f"constant_{len(bound)}"
            value = tensor(node.attrs["value"])
            if is_float(value.dtype):
                self.register_parameter(name, Parameter(value, requires_grad=False))
            else:
                self.register_buffer(name, value)
            bound[node.outputs[0]] = name
            owner.nodes.remove(node)
        for _, node in _walk(block):
            if node.name in PREPARED:
                _prepare(node, sources)
        self.__dict__["_program"] = (block, in_tree, out_tree, kept, tuple(leading), bound)
        self.__dict__["_bound"] = {}

    def bind(self, position, value):
        """Makes the arrays of an argument parameters of the module."""
        from jax import tree_util

        _, in_tree, *_ = self.__dict__["_program"]
        spans = _spans(in_tree)
        if not -len(spans) <= position < len(spans):
            raise value_error(f"from_jax: params={position}, but the function takes {len(spans)} arguments")
        position %= len(spans)
        first, tree = spans[position]
        leaves, given = tree_util.tree_flatten_with_path(value)
        if given != tree:
            raise value_error(f"from_jax: argument {position} must have the form {tree}, not {given}")
        names = {}
        for i, (path, leaf) in enumerate(leaves):
            if not hasattr(leaf, "__array__"):
                raise type_error(f"from_jax: params={position} needs arrays, but {tree_util.keystr(path)} is {type(leaf).__name__}")
            names[first + i] = self._registered(_path(path) or [f"argument_{position}"], tensor(_array(leaf)))
        self.__dict__["_bound"][position] = names

    def _registered(self, path, value):
        owner = self
        for part in path[:-1]:
            if part not in owner._modules:
                owner.add_module(part, Module())
            owner = owner._modules[part]
        last = path[-1]
        if last in owner._parameters or last in owner._buffers:
            raise value_error(f"from_jax: two arrays are named {'.'.join(path)}; give params of one argument")
        if is_float(value.dtype):
            owner.register_parameter(last, Parameter(value))
        else:
            owner.register_buffer(last, value)
        return ".".join(path)

    def forward(self, *args, **kwargs):
        """The results for arguments of the form that the function takes, without those that are parameters."""
        from jax import tree_util

        block, _, out_tree, kept, leading, bound = self.__dict__["_program"]
        flat = self._flat(args, kwargs)
        flat = flat if kept is None else [flat[i] for i in kept]
        types = block.types[len(leading) :]
        values = [*leading, *(self._input(i, x, t) for i, (x, t) in enumerate(zip(flat, types)))]
        run = _Run({i: getattr(self, name) for i, name in bound.items()})
        results = [tensor(y) for y in run(block, values)]
        return tree_util.tree_unflatten(out_tree, results)

    def _input(self, i, x, type):
        """An argument as a tensor of the type that the program wants."""
        if not isinstance(x, _native.Tensor):
            is_number = isinstance(x, (bool, int, float, complex))
            x = tensor(np.asarray(x, type.dtype) if is_number and type.dtype != "bfloat16" else _array(x))
        shape = tuple(x.shape)
        fits = len(shape) == len(type.shape) and all(m is None or n == m for n, m in zip(shape, type.shape))
        if x.dtype.name != type.dtype or not fits:
            raise value_error(f"{self._name(i)} must be {type}, not {x.dtype.name}{list(shape)}")
        return x

    def _name(self, i):
        """How the function sees its i-th array."""
        from jax import tree_util

        _, in_tree, _, kept, *_ = self.__dict__["_program"]
        names = tree_util.tree_unflatten(in_tree, range(in_tree.num_leaves))
        path = tree_util.tree_flatten_with_path(names)[0][i if kept is None else kept[i]][0]
        return f"{'kwargs' if path[0].idx else 'args'}{tree_util.keystr(path[1:])}"

    def _flat(self, args, kwargs):
        """The leaves of all arguments in order."""
        from jax import tree_util

        in_tree, parts = self.__dict__["_program"][1], self.__dict__["_bound"]
        spans = _spans(in_tree)
        wanted = len(spans) - len(parts)
        if len(args) != wanted:
            raise value_error(f"the function takes {wanted} arguments, but {len(args)} came")
        given, whole = iter(args), []
        for i, (first, tree) in enumerate(spans):
            if i in parts:
                whole.append(tree_util.tree_unflatten(tree, [_found(self, n) for n in parts[i].values()]))
            else:
                whole.append(next(given))
        flat, form = tree_util.tree_flatten((tuple(whole), kwargs))
        if form != in_tree:
            raise value_error(f"the function takes arguments of the form {in_tree}, but {form} came")
        return flat


def _is_weight(value):
    """Whether a constant is kept as a weight: not one that is known, or the same value everywhere."""
    if value.size <= KNOWN_MAX and (value.dtype.kind in "iub" or value.ndim == 0):
        return False
    return value.size > 0 and value.tobytes() != value.reshape(-1)[:1].tobytes() * value.size


def _prepare(node, sources):
    """Finds out about a node what its row wants to know."""
    f = PREPARED[node.name]
    named = {"sources": sources} if "sources" in inspect.signature(f).parameters else {}
    outside = {i: s.attrs["value"] for i, s in sources.items() if s.name == "constant" and s.attrs["value"].ndim == 0}
    try:
        with tw.no_grad():
            f(node, _Run(outside), **named)
    except Unsupported as e:
        raise value_error(f"from_jax: {node.name}: {e} is not known here ({node.line or 'no line'})") from e


def _spans(in_tree):
    """For each positional argument the number of its first leaf, and its form."""
    first, spans = 0, []
    for tree in in_tree.children()[0].children():
        spans.append((first, tree))
        first += tree.num_leaves
    return spans


def _found(module, name):
    *path, last = name.split(".")
    for part in path:
        module = module._modules[part]
    return getattr(module, last)


def _path(path):
    """The keys that lead to a leaf, as words."""
    words = []
    for key in path:
        for field in ("key", "idx", "name"):
            if hasattr(key, field):
                words.append(str(getattr(key, field)).replace(".", "_") or "_")
                break
    return words


def _array(x):
    """An array of JAX or NumPy as one of NumPy."""
    import jax

    if isinstance(x, jax.Array) and jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key):
        x = jax.random.key_data(x)
    return np.asarray(x)
