"""``export``: a function or module as a directory that any process can run and serve without the program."""

import inspect
from typing import Any, Callable, Mapping, Sequence

from . import _native
from ._native import Tensor

__all__ = ["Dim", "export"]


class Dim:
    """A free dimension: any size from ``min`` to ``max`` that is a multiple of ``multiple_of``."""

    def __init__(self, name: str, *, min: int = 1, max: int | None = None, multiple_of: int = 1) -> None:
        self.name, self.min, self.max, self.multiple_of = name, min, max, multiple_of

    def __repr__(self) -> str:
        return f"Dim({self.name!r}, min={self.min}, max={self.max}, multiple_of={self.multiple_of})"


def _argument_names(f: Any, count: int) -> list[str]:
    """Names of the first positional parameters; ``input0``, … where the function has none."""
    try:
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        names = [p.name for p in inspect.signature(getattr(f, "forward", f)).parameters.values() if p.kind in kinds]
    except (TypeError, ValueError):
        names = []
    return names[:count] if len(names) >= count else [f"input{i}" for i in range(count)]


def _axes(name: str, example: Tensor, shapes: Any, dims: dict[str, Dim]) -> list[str]:
    """The name of each free axis of an input; "" where its size is fixed."""
    free = dict(enumerate(shapes)) if isinstance(shapes, (list, tuple)) else dict(shapes or {})
    out = [""] * example.ndim
    for axis, dim in free.items():
        if dim is None:
            continue
        if not -example.ndim <= axis < example.ndim:
            raise ValueError(f"{name} has no axis {axis}")
        dim = Dim(dim) if isinstance(dim, str) else dim
        dims.setdefault(dim.name, dim)
        out[axis] = dim.name
    return out


def export(
    f: Callable[..., Any],
    directory: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any] | None = None,
    *,
    dynamic_shapes: Mapping[str, Any] | Sequence[Any] | None = None,
    name: str | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    preprocess: Callable[..., Any] | None = None,
    postprocess: Callable[..., Any] | None = None,
) -> None:
    """Writes a function or module as a model: graph, weights and signature in a directory that ``talweg serve`` serves
    and ``tw.serve.load`` runs.

    ``args`` and ``kwargs`` are example inputs. ``dynamic_shapes`` names the axes whose size is free, as in
    ``torch.export``: by input, ``{axis: name}`` or ``{axis: Dim(name, max=512)}``. Axes of the same name have the same
    size. The function must be a function of its inputs: call ``eval()`` on a module first. The keys of a dict of outputs
    become their names; ``input_names`` renames positional inputs.

    ``preprocess`` takes the inputs of the model and returns those of ``f``; ``postprocess`` takes the outputs of ``f``
    and returns those of the model. Both become part of the graph. A tuple is passed on as several arguments.

    >>> import tempfile, talweg as tw
    >>> with tempfile.TemporaryDirectory() as d:
    ...     tw.export(lambda x: x * 2, d + "/double/1", (tw.ones(1, 3),), dynamic_shapes={"x": {0: "batch"}})
    ...     tw.serve.load(d + "/double/1")(tw.ones(2, 3))["output"].tolist()
    [[2.0, 2.0, 2.0], [2.0, 2.0, 2.0]]
    """
    kwargs = dict(kwargs or {})
    args = tuple(args) if isinstance(args, (list, tuple)) else (args,)
    names = [*(input_names or _argument_names(preprocess or f, len(args))), *kwargs]
    if len(names) != len(args) + len(kwargs):
        raise ValueError(f"{len(args)} inputs need as many names, not {len(names) - len(kwargs)}")
    values = [*args, *kwargs.values()]
    for n, v in zip(names, values):
        if not isinstance(v, Tensor):
            raise TypeError(f"{n} must be a tensor, not {type(v).__name__}: bind other arguments with functools.partial")
    if getattr(f, "training", False):
        raise ValueError("the module is in training mode: call eval() first")
    shapes = dynamic_shapes or {}
    by_name = dict(zip(names, shapes)) if isinstance(shapes, (list, tuple)) else dict(shapes)
    if unknown := set(by_name) - set(names):
        raise ValueError(f"there is no input {sorted(unknown)[0]!r}; the inputs are {', '.join(names)}")
    dims: dict[str, Dim] = {}
    inputs = [(n, v.detach(), _axes(n, v, by_name.get(n), dims)) for n, v in zip(names, values)]

    def call(*tensors: Any) -> Any:
        given, named = tensors[: len(args)], dict(zip(kwargs, tensors[len(args) :]))
        if preprocess is not None:
            given, named = _as_arguments(preprocess(*given, **named)), {}
        out = f(*given, **named)
        return out if postprocess is None else postprocess(*_as_arguments(out))

    def flat(*tensors: Any) -> Any:
        out = call(*tensors)
        return tuple(out.values()) if isinstance(out, dict) else out

    if output_names is None:
        with _native_no_grad():
            first = call(*values)
        output_names = list(first) if isinstance(first, dict) else []
    from ._inspection import name_parameters

    name_parameters(f, ())
    rows = [(d.name, d.min, d.max, d.multiple_of) for d in dims.values()]
    title = name or getattr(f, "__name__", None) or type(f).__name__
    _native.export_model(flat, str(directory), "model" if title == "<lambda>" else title, inputs, rows, list(output_names))


def _as_arguments(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (list, tuple)) else (value,)


def _native_no_grad() -> Any:
    from ._state import no_grad

    return no_grad()
