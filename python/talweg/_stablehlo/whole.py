"""Functions found again in what an export has expanded.

An export writes `erf` and its kind as polynomials. They are slow to run, and their gradient is NaN where a polynomial
that is not selected overflows. The operators of one expansion follow each other and have JAX's name of the function in
their location. A run of them becomes the function again, if it has its values.
"""

# mypy: ignore-errors
import math

import numpy as np

import talweg as tw
from .nodes import Node
from .table import KNOWN, ROWS, Unsupported, dtype_of, is_float, tensor

# JAX's names, and the ends of the range in which a function is tried.
_FUNCTIONS = {
    "erf": (-6, 6), "erfc": (-6, 6), "erf_inv": (-0.999, 0.999), "lgamma": (-2.7, 9), "digamma": (0.1, 9),
    "bessel_i1e": (-9, 9), "sinh": (-5, 5), "cosh": (-5, 5), "asin": (-1, 1), "acos": (-1, 1), "atan": (-9, 9),
    "asinh": (-9, 9), "acosh": (1, 9), "atanh": (-0.9, 0.9), "tan": (-1.5, 1.5),
}  # fmt: skip
_FEWEST = 2
_PROBES = 97


def restore(block, outside=()):
    """Puts functions in the place of their expansions, also in blocks inside of this one."""
    constants = dict(outside)
    constants.update((n.outputs[0], n) for n in block.nodes if n.name == "constant")
    used = _uses(block)
    nodes, made = block.nodes, []
    i = 0
    while i < len(nodes):
        end = i
        if nodes[i].source[0] in _FUNCTIONS and nodes[i].name != "constant":
            while end < len(nodes) and nodes[end].source == nodes[i].source and nodes[end].name != "constant":
                end += 1
        whole = _whole(nodes[i:end], constants, used) if end - i >= _FEWEST else None
        if whole is not None:
            made.append(whole)
            i = end
            continue
        for inner in nodes[i].blocks:
            restore(inner, constants)
        made.append(nodes[i])
        i += 1
    block.nodes = made


def _uses(block):
    """For each value the nodes that read it, by identity; a block's results count as read."""
    used = {}

    def walk(b, owner):
        for n in b.nodes:
            by = owner or n
            for v in n.inputs:
                used.setdefault(v, set()).add(id(by))
            for inner in n.blocks:
                walk(inner, by)
        for v in b.results:
            used.setdefault(v, set()).add(id(owner) if owner else 0)

    walk(block, None)
    return used


def _whole(run, constants, used):
    """The node of the function that some nodes compute, or `None`."""
    name = f"chlo.{run[0].source[0]}"
    members, inner = {id(n) for n in run}, {o for n in run for o in n.outputs}
    inputs = {v for n in run for v in n.inputs if v not in inner and v not in constants}
    results = [o for n in run for o in n.outputs if used.get(o, set()) - members]
    if len(inputs) != 1 or len(results) != 1 or any(n.blocks for n in run):
        return None
    last = next(n for n in run if results[0] in n.outputs)
    dtype = dtype_of(last.dtype)
    if not is_float(dtype) or not _has_values_of(name, run, inputs, results[0], constants, last.types[0]):
        return None
    return Node(name, list(inputs), results, last.types, {}, [], last.line, last.source)


def _has_values_of(name, run, inputs, result, constants, type):
    """Whether some nodes compute a function: both are tried on the same numbers."""
    lo, hi = _FUNCTIONS[run[0].source[0]]
    dtype, rank = dtype_of(type.dtype), max(len(type.shape), 1)
    x = tw.tensor(np.linspace(lo, hi, _PROBES)).to(dtype).reshape((_PROBES, *[1] * (rank - 1)))
    env = {v: x for v in inputs}
    try:
        with tw.no_grad():
            for n in run:
                args = [env[v] if v in env else _scalar(constants[v]) for v in n.inputs]
                y = ROWS[n.name](n, *(args if n.name in KNOWN else map(tensor, args)))
                env.update(zip(n.outputs, y if isinstance(y, tuple) else (y,)))
            got, want = (np.asarray(tensor(v).to(tw.float64).tolist()) for v in (env[result], ROWS[name](None, x)))
    except (Unsupported, LookupError, TypeError, ValueError):
        return False
    tolerance = 1e-4 if dtype.itemsize >= 4 else 2e-2
    return got.shape == want.shape and np.allclose(got, want, rtol=tolerance, atol=tolerance, equal_nan=True)


def _scalar(constant):
    """The number of a constant that is the same everywhere."""
    value = constant.attrs["value"]
    first = value.reshape(-1)[:1]
    if not math.prod(value.shape) or value.tobytes() != first.tobytes() * value.size:
        raise Unsupported("a constant of several numbers")
    return first.reshape(())
