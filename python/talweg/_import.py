"""Models of other libraries as modules of this one."""

# mypy: ignore-errors
import io
import os

from ._checked import type_error, value_error


def from_torch(module, example=None, kwargs=None, *, dynamic_shapes=None):
    """A PyTorch module as a module here, with its weights under their names: it trains, exports and serves.

    `module` is a `torch.nn.Module`, with `example` arguments for `torch.export`; a `torch.export.ExportedProgram`; or
    the path of a ``.pt2`` file, which needs no PyTorch. `dynamic_shapes` says which sizes may differ, as `torch.export`
    takes it. Weights are copied.
    """
    from ._files import pt2

    if isinstance(module, (str, os.PathLike)) or hasattr(module, "read"):
        return pt2.read(module)
    try:
        import torch
    except ImportError as e:
        raise value_error("from_torch: PyTorch is needed for a module; a .pt2 file can be read without it") from e
    if isinstance(module, torch.nn.Module):
        if example is None:
            raise value_error("from_torch: give example arguments: tw.from_torch(module, (x,))")
        example = example if isinstance(example, tuple) else (example,)
        module = torch.export.export(module, example, kwargs, dynamic_shapes=dynamic_shapes)
    elif not isinstance(module, torch.export.ExportedProgram):
        raise type_error(f"from_torch: expected a module, an exported program or a path, not {type(module).__name__}")
    if _writes(module.graph):
        # As functions; layers become the operators that they are made of.
        module = module.run_decompositions({})
    file = io.BytesIO()
    torch.export.save(module, file)
    file.seek(0)
    return pt2.read(file)


def _writes(graph):
    """Whether an operator writes to something else than a buffer, or contains a graph."""
    for node in graph.nodes:
        schema = getattr(node.target, "_schema", None)
        is_write = schema is not None and schema.is_mutable and node.args and node.args[0].op != "placeholder"
        if is_write or str(getattr(node.target, "namespace", "")) == "higher_order":
            return True
    return False
