"""A graph of ATen operators as one program of Talweg, or as several with PyTorch's operators between them."""

# mypy: ignore-errors
import operator

import torch
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase
from torch.utils._python_dispatch import _disable_current_modes

import talweg as tw
from .. import _native
from .._aten import RANDOM, ROWS, Unsupported, dense_order
from .report import REPORT

# Arguments that say where and how a result lies, which is ours to decide.
_PLACES = {"device", "layout", "pin_memory", "memory_format", "non_blocking", "generator"}
_DTYPES = {
    getattr(torch, d): getattr(tw, d)
    for d in """bool uint8 int8 uint16 int16 uint32 int32 uint64 int64 float8_e4m3fn float8_e5m2 float16 bfloat16 float32
    float64 complex64 complex128""".split()
}


def _hint(n):
    """A size as a number: that of the example, if it is symbolic."""
    return n if isinstance(n, int) else int(n.node.hint)


def _name(target):
    """An operator's name without its overload."""
    return target._schema.name.rpartition("::")[2]


def _is_plain(target):
    """Whether it computes with Python's numbers, such as sizes."""
    return getattr(target, "__module__", "") in ("_operator", "math", "builtins") or target in _SYMBOLIC


_SYMBOLIC = {torch.sym_max, torch.sym_min, torch.sym_float, torch.sym_int, torch.sym_not, torch.sym_ite, torch.sym_sum}
_SIZES = {
    "sym_size": lambda x, dim=None: tuple(x.shape) if dim is None else x.shape[dim],
    "sym_numel": lambda x: x.numel(),
}


class _Draws:
    """The keys of a program's random numbers, one a draw."""

    def __init__(self, key):
        self.key, self.count = key, 0

    def next(self):
        self.count += 1
        return self.key + tw.tensor([0, self.count])


def _value(x, env):
    if isinstance(x, torch.fx.Node):
        if x not in env:
            raise Unsupported(f"its argument {x} is not known here")
        return env[x]
    if isinstance(x, (list, tuple)):
        return [_value(y, env) for y in x]
    if isinstance(x, torch.dtype):
        if x not in _DTYPES:
            raise Unsupported(f"element type {x}")
        return _DTYPES[x]
    return x


def _tensors(value):
    """The tensors of a node's example value."""
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for v in value for t in _tensors(v)] if isinstance(value, (list, tuple)) else []


def _home(graph):
    """Where a program runs: where its arguments are. Numbers in host memory may come with tensors of a GPU."""
    values = [t for n in graph.nodes if n.op == "placeholder" for t in _tensors(n.meta.get("val"))]
    devices = sorted({t.device for t in values if t.device.type != "cpu"}, key=str)
    if len(devices) > 1:
        raise Unsupported(f"arguments on {devices[0]} and {devices[1]}")
    return devices[0] if devices else torch.device("cpu")


def _evaluate(node, env, draws, home):
    """The value of one node of a program that runs at a device."""
    target = node.target
    args = [_value(a, env) for a in node.args]
    if target is operator.getitem or _is_plain(target):
        return target(*args, **{k: _value(v, env) for k, v in node.kwargs.items()})
    if not isinstance(target, torch._ops.OpOverload):
        raise Unsupported(f"no operator: {target}")
    if target.namespace not in ("aten", "prims"):
        raise Unsupported("an operator of another library")
    name = _name(target)
    if name in _SIZES:
        return _SIZES[name](*args)
    if name not in ROWS:
        raise Unsupported("not in the table")
    _check_device(node, home)
    settings = {k: _value(v, env) for k, v in node.kwargs.items() if k not in _PLACES}
    if name.startswith("as_strided"):
        settings["meta"] = node.args[0].meta["val"]
    if "eps" in node.meta:
        settings["eps"] = node.meta["eps"]
    if name in RANDOM:
        settings["key"] = draws.next()
    return _checked(ROWS[name](*args, **settings), node.meta.get("val"), name, _used(node))


def _used(node):
    """Which of several results are used; `None` if all may be. Devices differ in what the others are."""
    if any(user.target is not operator.getitem for user in node.users):
        return None
    return {user.args[1] for user in node.users}


def _check_device(node, home):
    """Nothing moves between devices inside of a program, and all results are where it runs."""
    there = _tensors(node.meta.get("val"))
    for result in there:
        if result.device != home:
            raise Unsupported(f"a result on {result.device} of a program on {home}")
    for a in node.all_input_nodes:
        here = a.meta.get("val")
        if there and isinstance(here, torch.Tensor) and here.ndim and here.device != home:
            raise Unsupported(f"from {here.device} to {home}")


def _checked(y, meta, name, used=None):
    """A result, whose type must be the one that PyTorch promises."""
    if isinstance(meta, (list, tuple)):
        return [a if used is not None and i not in used else _checked(a, m, name) for i, (a, m) in enumerate(zip(y, meta))]
    if not isinstance(meta, torch.Tensor) or not isinstance(y, tw.Tensor):
        return y
    want = _DTYPES.get(meta.dtype)
    if y.dtype != want:
        if want is None or not (y.dtype.is_floating_point and want.is_floating_point):
            raise Unsupported(f"the result is {y.dtype}, not {meta.dtype}")
        y = y.to(want)
    if y.ndim != meta.ndim or any(isinstance(n, int) and n != m for n, m in zip(meta.shape, y.shape)):
        raise Unsupported(f"the result has shape {tuple(y.shape)}, not {tuple(meta.shape)}")
    return y


def _stand_in(meta):
    if isinstance(meta, torch.Tensor):
        if meta.dtype not in _DTYPES:
            raise Unsupported(f"element type {meta.dtype}")
        return tw.placeholder(_DTYPES[meta.dtype], [_hint(n) for n in meta.shape])
    if isinstance(meta, (list, tuple)):
        return [_stand_in(m) for m in meta]
    if isinstance(meta, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return meta.node.hint
    return meta


def _constant(module, node):
    """A tensor of the graph's own."""
    value = operator.attrgetter(node.target)(module)
    if not isinstance(value, torch.Tensor) or value.device.type != "cpu":
        raise Unsupported("a constant that is no tensor in host memory")
    # Compilers are called where tensors are fake.
    with _disable_current_modes():
        return tw.from_dlpack(value.detach(), copy=True)


def probe(module):
    """The operators that have to run in PyTorch, with the reason, found by tracing each once."""
    refused, env = {}, {}
    draws = _Draws(tw.placeholder(tw.int64, [2]))
    try:
        home = _home(module.graph)
    except Unsupported as e:
        return {n: str(e) for n in module.graph.nodes if n.op == "call_function"}
    with tw.no_grad():
        for node in module.graph.nodes:
            if node.op == "output":
                continue
            try:
                if node.op == "call_function":
                    env[node] = _evaluate(node, env, draws, home)
                else:
                    env[node] = _stand_in(node.meta["val"]) if node.op == "placeholder" else _constant(module, node)
            except Exception as e:
                if node.op != "call_function":
                    # A use of it is refused.
                    continue
                refused[node] = str(e).split("\n")[0]
                try:
                    env[node] = _stand_in(node.meta.get("val"))
                except Unsupported:
                    env[node] = None
    return refused


def _order(meta):
    """The order in which PyTorch promises a result's axes, where it is not their own."""
    if not isinstance(meta, torch.Tensor) or meta.ndim < 2:
        return None
    sizes, strides = [_hint(n) for n in meta.shape], [_hint(s) for s in meta.stride()]
    order = dense_order(_Layout(sizes, strides))
    return None if order is None or order == sorted(order) or _is_dense(sizes, strides) else order


class _Layout:
    def __init__(self, sizes, strides):
        self.shape, self._strides = sizes, strides

    def stride(self):
        return self._strides


def _is_dense(sizes, strides):
    step = 1
    for n, s in zip(reversed(sizes), reversed(strides)):
        if n > 1 and s != step:
            return False
        step *= max(n, 1)
    return True


class Program:
    """A graph of ATen operators as a function of Talweg's tensors: called once for each form of its arguments."""

    def __init__(self, module):
        self.module, self.graph, self.home = module, module.graph, _home(module.graph)
        graph = module.graph
        self.inputs = [n for n in graph.nodes if n.op == "placeholder"]
        output = next(n for n in graph.nodes if n.op == "output").args[0]
        self.outputs = list(output) if isinstance(output, (list, tuple)) else [output]
        self.is_single = not isinstance(output, (list, tuple))
        self.is_random = any(
            isinstance(n.target, torch._ops.OpOverload) and _name(n.target) in RANDOM for n in graph.nodes
        )
        numbers = {n: i for i, n in enumerate(self.inputs)}
        self.passed = [numbers.get(o) if isinstance(o, torch.fx.Node) else None for o in self.outputs]

    def __call__(self, args):
        env = dict(zip(self.inputs, args))
        draws = _Draws(args[-1]) if self.is_random else None
        for node in self.graph.nodes:
            if node.op == "call_function":
                env[node] = _evaluate(node, env, draws, self.home)
            elif node.op == "get_attr":
                env[node] = _constant(self.module, node)
        return [self._result(o, env) for o, p in zip(self.outputs, self.passed) if p is None]

    def _result(self, out, env):
        if not isinstance(out, torch.fx.Node):
            return out
        y, order = env[out], _order(out.meta.get("val"))
        return (y, order) if order is not None and isinstance(y, tw.Tensor) else y


def _call(program, adopted=(), frozen=False):
    """A function of a list of PyTorch's tensors."""
    native = _native.ForeignCall(program, torch.Tensor, program.passed, list(adopted), frozen)
    if not program.is_random:
        call = lambda args: native(args)  # noqa: E731
    else:

        def call(args):
            args.append(torch.randint(-(2**63), 2**63 - 1, (2,)))
            return native(args)

    call._boxed_call = True
    call.native = native
    REPORT.programs.add(native)
    return call


class _Support(OperatorSupportBase):
    def __init__(self, refused):
        self.refused = refused

    def is_node_supported(self, modules, node):
        return node.op == "call_function" and node.target is not operator.getitem and node not in self.refused


def compiled(module, kind, adopted=(), frozen=False):
    """A graph of ATen operators as a function of a list of tensors, which returns a list."""
    refused = probe(module)
    REPORT.graph(kind, module.graph, refused)
    if not refused:
        return _call(Program(module), adopted, frozen)
    parts = CapabilityBasedPartitioner(module, _Support(refused), allows_single_node_partition=True)
    fused = parts.partition_and_fuse(prefix="talweg_")
    for name, part in list(fused.named_children()):
        if name.startswith("talweg_") and _stays(part):
            setattr(fused, name, _Part(part))
    fused.recompile()

    def call(args):
        values = list(args)
        args.clear()
        return fused(*values)

    call._boxed_call = True
    return call


def _stays(part):
    """Whether all results of a part are where its own arguments are; else it runs in PyTorch as it is."""
    try:
        home = _home(part.graph)
    except Unsupported:
        return False
    nodes = [n for n in part.graph.nodes if n.op == "call_function" and not _is_plain(n.target)]
    return all(t.device == home for n in nodes for t in _tensors(n.meta.get("val")))


class _Part(torch.nn.Module):
    """The operators between two that run in PyTorch."""

    def __init__(self, module):
        super().__init__()
        program = Program(module)
        self.__dict__["call"], self.__dict__["is_single"] = _call(program), program.is_single

    def forward(self, *args):
        results = self.__dict__["call"](list(args))
        return results[0] if self.__dict__["is_single"] else results
