"""Models of other libraries as modules of this one."""

# mypy: ignore-errors
import io
import os
import warnings

from . import _native
from ._checked import file_error, type_error, value_error
from .errors import FormatError


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


def from_jax(f, *examples, params=None, kwargs=None):
    """A function of JAX as a module here, through StableHLO: it can be compiled, differentiated, exported and served.

    `f` is a function with `examples` of its arguments (and `kwargs`): arrays, `jax.ShapeDtypeStruct`, containers of
    them. Or it is a `jax.export.Exported`, the bytes of one, or the path of a file with them. `params` are positions of
    arguments whose arrays become the module's parameters, under the names of their containers; a call then leaves those
    arguments out. Sizes may be symbolic (`jax.export.symbolic_shape`). JAX is needed to convert, not for its gradients:
    those are Talweg's.
    """
    try:
        import jax.export
        from jaxlib.mlir import ir
        from jaxlib.mlir.dialects import sdy, stablehlo
    except ImportError as e:
        raise value_error("from_jax: JAX is needed to convert: pip install jax") from e
    from ._stablehlo.program import JaxProgram
    from ._stablehlo.read import read

    exported = _exported(f)
    if exported is None and not callable(f):
        raise type_error(f"from_jax: expected a function, an exported program, bytes or a path, not {type(f).__name__}")
    if exported is None:
        jitted = jax.jit(f, keep_unused=True)
        traced = jitted.trace(*examples, **(kwargs or {}))
        _warn_of_lost_rules(traced.jaxpr.jaxpr)
        if _is_symbolic((examples, kwargs or {})):
            exported = jax.export.export(jitted, platforms=("cpu",))(*examples, **(kwargs or {}))
    if exported is None:
        # As exported, but with functions such as erf whole.
        lowered = traced.lower(lowering_platforms=("cpu",))
        module = lowered.compiler_ir("stablehlo")
        with module.context:
            made = JaxProgram(read(module), lowered.in_tree, lowered.out_tree)
    else:
        if exported.nr_devices != 1:
            raise value_error(f"from_jax: the program is for {exported.nr_devices} devices; export it for one")
        if exported.ordered_effects or exported.unordered_effects:
            raise value_error("from_jax: the program has effects, such as callbacks; export it without them")
        with ir.Context() as context:
            stablehlo.register_dialect(context)
            sdy.register_dialect(context)
            block = read(stablehlo.deserialize_portable_artifact(context, exported.mlir_module_serialized))
        leading = []
        if len(exported.platforms) > 1:
            platforms = [p.lower() for p in exported.platforms]
            leading = [_index_of_platform(platforms.index("cpu") if "cpu" in platforms else 0)]
        made = JaxProgram(block, exported.in_tree, exported.out_tree, exported.module_kept_var_idx, leading)
    for position in () if params is None else (params,) if isinstance(params, int) else params:
        if not -len(examples) <= position < len(examples):
            raise value_error(f"from_jax: params={position} needs the arrays of that argument among the examples")
        made.bind(position, examples[position])
    return made


def _exported(f):
    """An exported program, from its bytes or a file where it is given so; `None` for something else."""
    import jax.export

    if isinstance(f, jax.export.Exported):
        return f
    if isinstance(f, (str, os.PathLike)):
        try:
            with open(f, "rb") as file:
                f = file.read()
        except OSError as e:
            raise file_error(f"from_jax: cannot read {f}: {e.strerror or e}", e) from None
    elif hasattr(f, "read"):
        f = f.read()
    if not isinstance(f, (bytes, bytearray, memoryview)):
        return None
    try:
        return jax.export.deserialize(bytearray(f))
    except ImportError as e:
        raise value_error(f"from_jax: {e}") from e
    except Exception as e:
        raise FormatError(_native.located(f"from_jax: no exported program of JAX: {e}")) from e


def _is_symbolic(tree):
    """Whether an example has a size that is not a number."""
    import jax

    return any(not isinstance(n, int) for x in jax.tree.leaves(tree) for n in getattr(x, "shape", ()))


def _warn_of_lost_rules(jaxpr):
    """StableHLO has no rules of derivatives. JAX's own functions do not need theirs; the user's may."""
    for eqn in _equations(jaxpr):
        name = {"stop_gradient": "stop_gradient", "custom_vjp_call": "custom_vjp"}.get(eqn.primitive.name)
        line = name and _caller(eqn.source_info.traceback, name)
        if line:
            warnings.warn(
                f"from_jax: StableHLO has no {name} ({line}): the module computes what it computes, but its gradient is "
                "that of the ops inside. Put jax.grad into the function where that matters",
                stacklevel=3,
            )


def _equations(jaxpr):
    """All equations, also those inside of others."""
    for eqn in jaxpr.eqns:
        yield eqn
        for value in eqn.params.values():
            for inner in value if isinstance(value, (tuple, list)) else (value,):
                inner = getattr(inner, "jaxpr", inner)
                if hasattr(inner, "eqns"):
                    yield from _equations(inner)


def _caller(traceback, name):
    """The line that called a function of JAX, or `None` if JAX itself did."""
    import jax

    package = os.path.dirname(jax.__file__) + os.sep
    frames = list(traceback.frames) if traceback else []
    called = [i for i, f in enumerate(frames) if f.function_name.split(".")[0] == name]
    callers = frames[max(called) + 1 :] if called else []
    # Between the two are wrappers that only tidy tracebacks.
    caller = next((f for f in callers if os.path.basename(f.file_name) not in ("traceback_util.py", "api.py")), None)
    is_user = caller is not None and not caller.file_name.startswith(package)
    return f"{caller.file_name}:{caller.line_num}" if is_user else None


def _index_of_platform(i):
    import numpy as np

    return np.asarray(i, np.int32)


def _writes(graph):
    """Whether an operator writes to something else than a buffer, or contains a graph."""
    for node in graph.nodes:
        schema = getattr(node.target, "_schema", None)
        is_write = schema is not None and schema.is_mutable and node.args and node.args[0].op != "placeholder"
        if is_write or str(getattr(node.target, "namespace", "")) == "higher_order":
            return True
    return False
