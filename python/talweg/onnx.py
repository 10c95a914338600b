"""ONNX models: ``load`` runs one, ``save`` writes one.

>>> import os, tempfile, talweg as tw
>>> path = os.path.join(tempfile.mkdtemp(), "double.onnx")
>>> tw.onnx.save(lambda x: x * 2, path, (tw.ones(1, 3),), dynamic_shapes={"x": {0: "batch"}})
>>> tw.onnx.load(path)(tw.ones(2, 3)).tolist()
[[2.0, 2.0, 2.0], [2.0, 2.0, 2.0]]
"""

from __future__ import annotations

import os
from typing import Any, Callable, Mapping, Sequence

from . import _native, nn
from ._export import Dim, _argument_names, _axes
from ._native import Tensor, is_grad_enabled
from ._state import no_grad

__all__ = ["Model", "load", "save"]


class Model(nn.Module):
    """A module that computes what an ONNX file says. Its parameters are the file's weights, by their names.

    A call without gradients runs a program that is compiled once for each set of input sizes, with the weights inside.
    With gradients, or inside ``jit``, it is ordinary tensor code. Models whose sizes depend on values (``NonZero``,
    ``NonMaxSuppression``) run node by node; ``jit`` refuses them.
    """

    def __init__(self, native: Any) -> None:
        super().__init__()
        self._native = native
        self._weights = dict(native.weights())
        for p in self._weights.values():
            p.requires_grad_(False)

    @property
    def input_names(self) -> list[str]:
        """The names of the inputs."""
        return [name for name, _, _ in self._native.inputs()]

    @property
    def output_names(self) -> list[str]:
        """The names of the outputs."""
        return [name for name, _, _ in self._native.outputs()]

    @property
    def signature(self) -> dict[str, list[tuple[str, str, list[Any] | None]]]:
        """Inputs and outputs: name, element type and sizes. A size is a number, the name of a free one, or ``None``."""
        return {"inputs": self._native.inputs(), "outputs": self._native.outputs()}

    @property
    def opsets(self) -> dict[str, int]:
        """The operator sets that the file uses."""
        return {domain or "ai.onnx": version for domain, version in self._native.opsets()}

    @property
    def operators(self) -> dict[str, int]:
        """How often each operator occurs."""
        return dict(self._native.operators())

    def named_parameters(self, *args: Any, **kwargs: Any) -> Any:
        """The weights by name."""
        return iter(self._weights.items())

    def parameters(self, *args: Any, **kwargs: Any) -> Any:
        """The weights."""
        return iter(self._weights.values())

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The outputs for inputs by position or name: a tensor, or a tuple of several."""
        names = self.input_names
        given = dict(zip(names, args))
        if len(args) > len(names):
            raise TypeError(f"the model takes {len(names)} inputs {names}, but {len(args)} were given")
        for name, value in kwargs.items():
            if name not in names or name in given:
                raise TypeError(f"there is no input {name!r}, or it is given twice; the inputs are {names}")
            given[name] = value
        if missing := [n for n in names if n not in given]:
            raise TypeError(f"missing inputs: {', '.join(missing)}")
        inputs = [v if isinstance(v, Tensor) else _native.tensor(v) for v in (given[n] for n in names)]
        is_trained = any(p.requires_grad for p in self._weights.values())
        wants_grad = is_grad_enabled() and (is_trained or any(t.requires_grad for t in inputs))
        outputs = self._native.run(inputs, wants_grad)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def export(self, directory: str | os.PathLike[str], *, name: str | None = None, sizes: Mapping[str, int] | None = None) -> None:
        """Writes the model in Talweg's own format, which ``talweg serve`` serves. ``sizes`` fixes free sizes."""
        title = name or os.path.basename(os.path.normpath(os.fspath(directory)))
        self._native.export(os.fspath(directory), title, dict(sizes or {}))


def load(source: str | os.PathLike[str] | bytes, *, memory_limit: int | None = None) -> Model:
    """Reads an ONNX file (operator sets up to 28) as a module, or a model given as ``bytes``.

    Operators that are not supported are an error that lists all of them with their nodes. External data are read from
    the file's folder alone. ``memory_limit`` bounds the bytes of one value; by default 1 GiB, or four times the file and
    64 times the inputs if that is more.
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        return Model(_native.OnnxModel.from_bytes(bytes(source), memory_limit))
    return Model(_native.OnnxModel.open(os.fspath(source), memory_limit))


def save(
    f: Callable[..., Any],
    path: str | os.PathLike[str],
    args: Sequence[Any],
    *,
    dynamic_shapes: Mapping[str, Any] | Sequence[Any] | None = None,
    name: str | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
) -> None:
    """Writes a function or module as an ONNX file (operator set 20).

    ``args`` are example inputs; ``dynamic_shapes`` names the axes whose size is free, by input: ``{"x": {0: "batch"}}``,
    or in the order of the inputs: ``[{0: "batch"}]``. The keys of a dict of outputs become their names. Weights become
    initializers with their names. Ops that ONNX has no operators for are an error that lists them. A module must be in
    ``eval()`` mode.
    """
    args = tuple(args) if isinstance(args, (list, tuple)) else (args,)
    names = list(input_names or _argument_names(f, len(args)))
    if len(names) != len(args):
        raise ValueError(f"{len(args)} inputs need as many names, not {len(names)}")
    for n, v in zip(names, args):
        if not isinstance(v, Tensor):
            raise TypeError(f"{n} must be a tensor, not {type(v).__name__}: bind other arguments with functools.partial")
    if getattr(f, "training", False):
        raise ValueError("the module is in training mode: call eval() first")
    given = dynamic_shapes or {}
    if isinstance(given, (list, tuple)) and len(given) != len(names):
        raise ValueError(f"dynamic_shapes has {len(given)} entries for {len(names)} inputs: {', '.join(names)}")
    shapes = dict(zip(names, given)) if isinstance(given, (list, tuple)) else dict(given)
    if unknown := set(shapes) - set(names):
        raise ValueError(f"there is no input {sorted(unknown)[0]!r}; the inputs are {', '.join(names)}")
    dims: dict[str, Dim] = {}
    inputs = [(n, v.detach(), _axes(n, v, shapes.get(n), dims)) for n, v in zip(names, args)]
    from ._inspection import name_parameters

    name_parameters(f, ())
    title = name or getattr(f, "__name__", None) or type(f).__name__

    def flat(*tensors: Any) -> Any:
        out = f(*tensors)
        return tuple(out.values()) if isinstance(out, dict) else out

    if output_names is None:
        with no_grad():
            first = f(*args)
        output_names = list(first) if isinstance(first, dict) else []
    _native.onnx_save(flat, os.fspath(path), "model" if title == "<lambda>" else title, inputs, list(output_names or []))
