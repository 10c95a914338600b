"""Modules as functions of their parameters, for ``grad``, ``vmap`` and ``jacobian``."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from ..._checked import check, key_error, type_error, value_error
from ..._native import Tensor

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from ...nn.module import Module

__all__ = ["functional_call", "stack_module_state"]


def _entries(module):
    """Where each parameter and buffer is, by path: the dictionary and the name in it."""
    out = {}
    for path, m in module.named_modules(remove_duplicate=False):
        for kind in ("_parameters", "_buffers"):
            for name, value in m.__dict__[kind].items():
                if value is not None:
                    out[f"{path}.{name}" if path else name] = (m.__dict__[kind], name)
    return out


@contextlib.contextmanager
def _replaced(module, state, tie_weights, strict):
    entries = _entries(module)
    unknown = [n for n in state if n not in entries]
    if unknown:
        raise key_error(f"functional_call: {type(module).__name__} has no {unknown[0]!r}")
    if strict and len(state) != len(entries):
        raise key_error(f"functional_call: missing {sorted(set(entries) - set(state))}")
    before = {n: d[k] for n, (d, k) in entries.items()}
    given = dict(state)
    if tie_weights:
        by_variable = {before[n].variable_id: v for n, v in state.items()}
        given.update({n: by_variable[old.variable_id] for n, old in before.items() if n not in state and old.variable_id in by_variable})
    try:
        for n, value in given.items():
            entries[n][0][entries[n][1]] = value
        yield
    finally:
        for n, old in before.items():
            entries[n][0][entries[n][1]] = old


def functional_call(
    module: Module, parameters_and_buffers: Any, args: Any = None, kwargs: Any = None, *, tie_weights: bool = True,
    strict: bool = False,
) -> Any:  # fmt: skip
    """``module(*args, **kwargs)`` with other tensors in the place of its parameters and buffers, by path.

    >>> layer = tw.nn.Linear(2, 1, bias=False)
    >>> loss = lambda state, x: tw.nn.utils.stateless.functional_call(layer, state, (x,)).sum()
    >>> tw.grad(loss)({"weight": tw.zeros(1, 2)}, tw.ones(3, 2))["weight"].tolist()
    [[3.0, 3.0]]
    """
    dicts = parameters_and_buffers
    dicts = [dicts] if hasattr(dicts, "keys") else list(dicts)
    state = {}
    for d in dicts:
        twice = set(state) & set(d)
        if twice:
            raise value_error(f"functional_call: {sorted(twice)[0]!r} is given twice")
        state.update(d)
    for n, value in state.items():
        if not isinstance(value, Tensor):
            raise type_error(f"functional_call: {n} is {type(value).__name__}, not a tensor")
    args = () if args is None else args if isinstance(args, tuple) else (args,)
    with _replaced(module, state, tie_weights, strict):
        return module(*args, **(kwargs or {}))


def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """The parameters and the buffers of models of one kind, each stacked along a new first axis: for ``vmap``.

    The stacked parameters are leaves that collect gradients where those of the first model do.

    >>> params, buffers = tw.nn.utils.stateless.stack_module_state([tw.nn.Linear(2, 3) for _ in range(4)])
    >>> params["weight"].shape, buffers
    (talweg.Size([4, 3, 2]), {})
    """
    models = list(models)
    if not models or any(type(m) is not type(models[0]) for m in models):
        raise value_error("stack_module_state: expected one or more modules of the same class")
    stacked = []
    for walk in ("named_parameters", "named_buffers"):
        parts = [dict(getattr(m, walk)()) for m in models]
        whole = {n: Tensor.stack([p[n].detach() for p in parts]) for n in parts[0]}
        stacked.append({n: t.requires_grad_() if parts[0][n].requires_grad else t for n, t in whole.items()})
    return tuple(stacked)


check(globals(), __all__)
