"""A module of MLIR as plain data: blocks of nodes, with calls inlined. The only file that needs jaxlib."""

# mypy: ignore-errors
import os
import re

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import chlo, func, stablehlo

from .._checked import value_error
from .nodes import Block, Node, Type
from .table import ROWS
from .whole import restore

_NODES_MAX = 1 << 20
_FLOATS = {
    ir.F32Type: "float32", ir.F64Type: "float64", ir.F16Type: "float16", ir.BF16Type: "bfloat16",
    ir.Float8E4M3FNType: "float8_e4m3fn", ir.Float8E5M2Type: "float8_e5m2",
}  # fmt: skip
_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep
_LINE = re.compile(r'"([^"]+)":(\d+)')
_NAME = re.compile(r'loc\("([^"]*)"')
# Dimension numbers, and the fields of them.
_NUMBERS = {
    stablehlo.DotDimensionNumbers: """lhs_batching_dimensions rhs_batching_dimensions lhs_contracting_dimensions
        rhs_contracting_dimensions""",
    stablehlo.ConvDimensionNumbers: """input_batch_dimension input_feature_dimension input_spatial_dimensions
        kernel_input_feature_dimension kernel_output_feature_dimension kernel_spatial_dimensions output_batch_dimension
        output_feature_dimension output_spatial_dimensions""",
    stablehlo.GatherDimensionNumbers: """offset_dims collapsed_slice_dims operand_batching_dims
        start_indices_batching_dims start_index_map index_vector_dim""",
    stablehlo.ScatterDimensionNumbers: """update_window_dims inserted_window_dims input_batching_dims
        scatter_indices_batching_dims scattered_dims_to_operand_dims index_vector_dim""",
}
_WORDS = (
    stablehlo.ComparisonDirectionAttr, stablehlo.ComparisonTypeAttr, stablehlo.FftTypeAttr, stablehlo.TransposeAttr,
    stablehlo.RngAlgorithmAttr, chlo.ComparisonDirectionAttr, chlo.ComparisonTypeAttr,
)  # fmt: skip


# What to do about operators that are not known.
_HINTS = {
    "callback": "take callbacks and debug prints out of the function",
    "rng_bit_generator": "use the keys of threefry: jax.random.key(seed, impl='threefry2x32')",
    "all_": "write the function for one device",
    "collective_": "write the function for one device",
}


class _Reader:
    def __init__(self, module):
        self.functions = {
            op.attributes["sym_name"].value: op for op in module.body.operations if op.operation.name == "func.func"
        }
        self.count = self.nodes = 0
        self.missing = {}

    def new(self):
        self.count += 1
        return self.count - 1

    def main(self):
        body = self.functions["main"].regions[0].blocks[0]
        env = {}
        params = [self.new() for _ in body.arguments]
        env.update(zip(body.arguments, params))
        block = Block(params, [_type(a.type) for a in body.arguments])
        self.fill(block, body, env, "")
        return block

    def fill(self, block, body, env, caller):
        """Appends the operators of a body, and sets the block's results."""
        for op in body.operations:
            op = op.operation
            inputs = [env[v] for v in op.operands]
            if op.name in ("func.return", "stablehlo.return"):
                block.results = inputs
                return
            line = _line(op) or caller
            callee = self.callee(op)
            if callee is not None:
                inner = callee.regions[0].blocks[0]
                results, block.results = block.results, []
                self.fill(block, inner, dict(zip(inner.arguments, inputs)), line)
                env.update(zip(op.results, block.results))
                block.results = results
                continue
            self.append(block, op, inputs, env, line)

    def callee(self, op):
        """The function that a call inlines."""
        if op.name == "func.call":
            return self.functions[op.attributes["callee"].value]
        if op.name == "stablehlo.composite" and op.attributes["name"].value not in ROWS:
            return self.functions[op.attributes["decomposition"].value]
        return None

    def append(self, block, op, inputs, env, line):
        self.nodes += 1
        if self.nodes > _NODES_MAX:
            raise value_error(f"from_jax: the program has more than {_NODES_MAX} operators")
        name = op.name.removeprefix("stablehlo.")
        outputs = [self.new() for _ in op.results]
        env.update(zip(op.results, outputs))
        if name == "constant":
            attrs = {"value": _constant(op)}
        else:
            attrs = {a: _attribute(op.attributes[a]) for a in op.attributes if a not in ("precision_config", "sdy.sharding_rule")}
        if name == "composite":
            name, attrs = attrs["name"], attrs.get("composite_attributes", {})
        if name == "custom_call":
            name = f"custom_call {attrs['call_target_name']}"
        if name not in ROWS:
            self.missing.setdefault(name, line)
        blocks = [self.region(r.blocks[0], env, line) for r in op.regions]
        for called in attrs.get("called_computations", ()):
            blocks.append(self.region(self.functions[called].regions[0].blocks[0], {}, line))
        types = [_type(r.type) for r in op.results]
        block.nodes.append(Node(name, inputs, outputs, types, attrs, blocks, line, _source(op)))

    def region(self, body, env, line):
        params = [self.new() for _ in body.arguments]
        env.update(zip(body.arguments, params))
        block = Block(params, [_type(a.type) for a in body.arguments])
        self.fill(block, body, env, line)
        return block


def _line(op):
    """The line of the user's program, the innermost one."""
    for file, line in _LINE.findall(str(op.location)):
        if not file.startswith(_PACKAGE):
            return f"{file}:{line}"
    return ""


def _source(op):
    """JAX's name of the function that an operator belongs to, and the whole location."""
    where = str(op.location)
    found = _NAME.match(where)
    return (found[1].rpartition("/")[2] if found else "", where)


def _type(t):
    if not isinstance(t, ir.RankedTensorType):
        raise value_error(f"from_jax: values of type {t} are not known here (effects such as ordered callbacks have them)")
    shape = tuple(None if t.is_dynamic_dim(i) else t.get_dim_size(i) for i in range(t.rank))
    return Type(_dtype(t.element_type), shape)


def _dtype(t):
    if isinstance(t, ir.IntegerType):
        if t.width == 1:
            return "bool"
        if t.width in (8, 16, 32, 64):
            return f"{'u' if t.is_unsigned else ''}int{t.width}"
    if isinstance(t, ir.ComplexType):
        return {"float32": "complex64", "float64": "complex128"}[_dtype(t.element_type)]
    for kind, name in _FLOATS.items():
        if isinstance(t, kind):
            return name
    raise value_error(f"from_jax: element type {t} is not known here")


def _attribute(a):
    """The value of an attribute."""
    if isinstance(a, ir.ArrayAttr):
        return [_attribute(x) for x in a]
    if isinstance(a, ir.DictAttr):
        return {x.name: _attribute(x.attr) for x in a}
    if isinstance(a, (ir.DenseI64ArrayAttr, ir.DenseBoolArrayAttr, ir.DenseI32ArrayAttr)):
        return list(a)
    if isinstance(a, ir.DenseElementsAttr):
        return np.array(a)
    if isinstance(a, (ir.IntegerAttr, ir.BoolAttr, ir.FloatAttr, ir.StringAttr, ir.FlatSymbolRefAttr)):
        return a.value
    for kind, fields in _NUMBERS.items():
        if kind.isinstance(a):
            a = kind(a)
            return {f: _plain(getattr(a, f)) for f in fields.split()}
    for kind in _WORDS:
        if kind.isinstance(a):
            return kind(a).value
    return str(a)


def _plain(x):
    return x if isinstance(x, int) else list(x)


def _constant(op):
    """The elements of a constant. Types that NumPy does not have pass through jaxlib's interpreter as others."""
    t = ir.RankedTensorType(op.results[0].type)
    name = _dtype(t.element_type)
    if name not in ("bfloat16", "float8_e4m3fn", "float8_e5m2", "complex64", "complex128"):
        return np.array(op.attributes["value"]).reshape(t.shape)
    with op.context, ir.Location.unknown():
        module = ir.Module.create()
        with ir.InsertionPoint(module.body):
            main = func.FuncOp("main", ([], []))
            with ir.InsertionPoint(main.add_entry_block()):
                value = op.clone().results[0]
                if isinstance(t.element_type, ir.ComplexType):
                    outs = [stablehlo.real(value), stablehlo.imag(value)]
                else:
                    bits = ir.IntegerType.get_unsigned(16 if name == "bfloat16" else 8)
                    outs = [stablehlo.bitcast_convert(ir.RankedTensorType.get(t.shape, bits), value)]
                func.ReturnOp(outs)
            main.attributes["function_type"] = ir.TypeAttr.get(ir.FunctionType.get([], [o.type for o in outs]))
        parts = [np.array(a).reshape(t.shape) for a in stablehlo.eval_module(module, [])]
    if len(parts) == 2:
        whole = np.empty(t.shape, name)
        whole.real, whole.imag = parts
        return whole
    import ml_dtypes

    return parts[0].view(getattr(ml_dtypes, name))


def read(module):
    """The body of a module's main function. Operators that are not known are one error, with the lines that use them."""
    reader = _Reader(module)
    block = reader.main()
    restore(block)
    if reader.missing:
        listed = "; ".join(f"{op} ({line})" if line else op for op, line in sorted(reader.missing.items()))
        hints = {hint for part, hint in _HINTS.items() if any(part in op for op in reader.missing)}
        hint = "; ".join(sorted(hints)) or "leave that part of the function in JAX, or write it with other functions"
        raise value_error(f"from_jax: operators that are not known here: {listed}; {hint}")
    return block
