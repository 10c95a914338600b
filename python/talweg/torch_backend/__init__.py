"""PyTorch programs compiled by Talweg: ``torch.compile(model, backend="talweg")``.

Forward and backward graphs come from AOTAutograd as core ATen operators; `table` says what each is here. Tensors cross
without a copy by DLPack. Operators that are not in the table run in PyTorch, and `report` lists them.

Options: ``torch.compile(model, backend="talweg", options={"frozen": True})`` compiles weights in for inference; a
weight that is changed is compiled in again at the next call.
"""

# mypy: ignore-errors
import functools

import torch
from torch._dynamo import register_backend
from torch._dynamo.backends.common import aot_autograd

from . import joint, lower
from .report import REPORT, Report

__all__ = ["backend", "report"]

_OPTIONS = {"frozen"}


def report() -> Report:
    """The graphs that were compiled so far, with graph breaks and the operators that ran in PyTorch.

    `report().clear()` starts over.
    """
    return REPORT


def _static():
    """Which inputs of a forward graph are parameters and buffers, which stay where they are."""
    context = torch._guards.TracingContext.try_get()
    meta = context.fw_metadata if context is not None else None
    return list(meta.static_input_indices or ()) if meta is not None else []


def _forward(frozen, kind):
    def compile(module, inputs):
        adopted = _static()
        return lower.compiled(module, kind, adopted, frozen and kind == "inference")

    return compile


def backend(module, inputs, *, options=None, mode=None):
    """The function that `torch.compile` calls with a graph."""
    unknown = set(options or {}) - _OPTIONS
    if unknown:
        raise ValueError(f"backend talweg: unknown options {sorted(unknown)}; there is {sorted(_OPTIONS)}")
    if mode not in (None, "default"):
        raise ValueError(f"backend talweg: mode {mode!r} is Inductor's; use options={{'frozen': True}} for inference")
    return _compiler(bool((options or {}).get("frozen", False)))(module, inputs)


@functools.cache
def _compiler(frozen):
    return aot_autograd(
        fw_compiler=_forward(False, "forward"),
        bw_compiler=lambda module, inputs: lower.compiled(module, "backward"),
        inference_compiler=_forward(frozen, "inference"),
        decompositions=joint.decompositions,
        partition_fn=joint.partition,
    )


register_backend(backend, name="talweg")
