"""Forward-mode differentiation, with PyTorch's names: tensors that carry a direction in which they move.

A derivative along a direction is computed where it is unpacked, as the gradient of a gradient, which is linear in its
cotangent. So the scope enables gradients, and a tensor computed under ``no_grad`` inside of it has no tangent.
``tw.func.jvp`` is the same for a function.
"""

from typing import Any, NamedTuple

from .. import _native
from .._checked import check, type_error, value_error
from .._native import Tensor
from .._state import enable_grad

__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]

# Tensors and their tangents, in the level that is open.
_duals: list[tuple[Tensor, Tensor]] = []
_levels: list[Any] = []


class UnpackedDualTensor(NamedTuple):
    """What ``unpack_dual`` returns."""

    primal: Tensor
    tangent: Tensor | None


def enter_dual_level() -> int:
    """Opens the level, of which there is one; ``dual_level`` is a scope."""
    if _levels:
        raise value_error("dual_level: there is one level: nest tw.func.jvp for higher derivatives")
    scope = enable_grad()
    scope.__enter__()
    _levels.append(scope)
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """Closes the level: tensors forget their tangents."""
    if not _levels or level not in (None, 0):
        raise value_error("exit_dual_level: no such level is open")
    _duals.clear()
    _levels.pop().__exit__(None, None, None)


class dual_level:
    """A scope in which tensors have tangents.

    >>> import talweg.autograd.forward_ad as fwAD
    >>> with fwAD.dual_level():
    ...     x = fwAD.make_dual(tw.tensor([1.0, 3.0]), tw.tensor([1.0, 10.0]))
    ...     fwAD.unpack_dual(x * x).tangent.tolist()
    [2.0, 60.0]
    """

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *_exception: Any) -> None:
        exit_dual_level()


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """A tensor that moves along a tangent."""
    if not _levels or level not in (None, 0):
        raise value_error("make_dual: no level is open: write `with dual_level():`")
    if not isinstance(tensor, Tensor) or not isinstance(tangent, Tensor):
        raise type_error(f"make_dual: expected tensors, not {type(tensor).__name__} and {type(tangent).__name__}")
    if tensor.shape != tangent.shape or tensor.dtype != tangent.dtype:
        kinds = f"{tuple(tensor.shape)} of {tensor.dtype} and {tuple(tangent.shape)} of {tangent.dtype}"
        raise value_error(f"make_dual: a tensor and its tangent must have one shape and type, not {kinds}")
    if not tensor.dtype.is_floating_point and not tensor.dtype.is_complex:
        raise type_error(f"make_dual: expected a float or complex tensor, not {tensor.dtype}")
    (dual,) = _native.autograd_tracked([tensor])
    _duals.append((dual, tangent))
    return dual


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """A tensor, and how it moves as the duals do that it was computed from; ``None`` if there are none."""
    if level not in (None, 0):
        raise value_error("unpack_dual: no such level is open")
    if not _duals or not tensor.requires_grad:
        return UnpackedDualTensor(tensor, None)
    xs = [x for x, _ in _duals]
    with enable_grad():
        us = _native.autograd_tracked([_native.zeros_like(tensor.detach())])
        found = _native.autograd_pull([tensor], us, xs)
        pairs = [(g, t) for g, (_, t) in zip(found, _duals) if g is not None]
        if not pairs:
            return UnpackedDualTensor(tensor, None)
        (tangent,) = _native.autograd_pull([g for g, _ in pairs], [t for _, t in pairs], us)
    primal, tangent = _native.autograd_settled([tensor, _native.zeros_like(tensor.detach()) if tangent is None else tangent], [*xs, *us])
    return UnpackedDualTensor(primal, tangent)


check(globals(), ["make_dual", "unpack_dual"])
