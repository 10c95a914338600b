"""Programs of `torch.export` (``.pt2`` files), read without PyTorch: a zip of stored entries with the graph as JSON and
the weights as plain bytes. Nothing in a file is executed: an operator is a row of `_aten`, or an error.
"""

# mypy: ignore-errors
import json
import math
import operator
import zipfile

from .. import _native
from .._checked import file_error, value_error
from ..errors import FormatError
from ..nn.module import Module
from ..nn.parameter import Parameter
from .._aten import RANDOM, ROWS, Unsupported

# The parts of a file that are read into memory at most; weights are as large as the file.
_JSON_MAX = 256 << 20
_ENTRIES_MAX = 1 << 20
_NODES_MAX = 1 << 20

_DTYPES = {
    1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "float16", 7: "float32", 8: "float64", 10: "complex64",
    11: "complex128", 12: "bool", 13: "bfloat16", 28: "uint16", 29: "float8_e4m3fn", 30: "float8_e5m2", 34: "uint32",
    35: "uint64",
}  # fmt: skip
# Settings that say where and how a result lies, which is ours to decide.
_PLACES = {"device", "layout", "pin_memory", "memory_format", "non_blocking", "generator"}
_VIEWS = """view reshape select slice expand permute transpose t squeeze unsqueeze diagonal narrow split chunk unbind detach
    alias flatten unflatten movedim split_with_sizes""".split()
_ARITHMETIC = """add sub mul truediv floordiv mod pow neg pos abs eq ne lt le gt ge and_ or_ xor not_ getitem lshift rshift
    """.split()


def _fail(what):
    raise FormatError(_native.located(f"pt2: {what}"))


class _Archive:
    """A zip file whose entries are stored as they are."""

    def __init__(self, file):
        try:
            self.zip = zipfile.ZipFile(file)
        except zipfile.BadZipFile as e:
            _fail(f"no zip file: {e}")
        except OSError as e:
            raise file_error(f"from_torch: cannot read {file}: {e.strerror or e}", e) from None
        infos = self.zip.infolist()
        if len(infos) > _ENTRIES_MAX:
            _fail(f"{len(infos)} entries are more than {_ENTRIES_MAX}")
        self.entries = {}
        for info in infos:
            # The first folder is the archive's name.
            name = info.filename.partition("/")[2]
            if name in self.entries:
                _fail(f"two entries are named {name!r}")
            self.entries[name] = info

    def bytes(self, name, most=None):
        info = self.entries.get(name)
        if info is None:
            _fail(f"there is no entry {name!r}")
        if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size:
            _fail(f"entry {name!r} is compressed")
        if most is not None and info.file_size > most:
            _fail(f"entry {name!r} has {info.file_size} bytes, more than {most}")
        try:
            return self.zip.read(info)
        except (zipfile.BadZipFile, EOFError, NotImplementedError) as e:
            _fail(f"entry {name!r}: {e}")

    def json(self, name):
        try:
            return json.loads(self.bytes(name, _JSON_MAX))
        except (ValueError, RecursionError) as e:
            _fail(f"entry {name!r} is no JSON: {e}")


def _int(x):
    """A size that is written as a number."""
    x = x.get("as_int") if isinstance(x, dict) else x
    if not isinstance(x, int) or isinstance(x, bool) or x < 0:
        _fail(f"a size is {x!r}")
    return x


def _tensor(archive, folder, config):
    """A weight: elements by strides over the bytes of an entry."""
    if config.get("use_pickle"):
        _fail(f"weight {config.get('path_name')!r} is a pickle, which is not executed")
    meta = config["tensor_meta"]
    name = _DTYPES.get(meta["dtype"])
    if name is None:
        _fail(f"element type {meta['dtype']} is not known")
    dtype = _native.dtype_of_name(name)
    sizes, strides = [_int(n) for n in meta["sizes"]], [_int(n) for n in meta["strides"]]
    offset = _int(meta["storage_offset"])
    data = archive.bytes(f"{folder}/{config['path_name']}")
    count, width = math.prod(sizes), dtype.itemsize
    last = offset + sum((n - 1) * s for n, s in zip(sizes, strides)) if count else -1
    if len(sizes) != len(strides) or (last + 1) * width > len(data):
        _fail(f"weight {config['path_name']!r} reaches beyond its {len(data)} bytes")
    if not count:
        return _native.zeros(*sizes, dtype=dtype)
    flat = _native._rebuild(_native.Tensor, data[: len(data) // width * width], dtype, (len(data) // width,), False, False)
    step, dense = 1, True
    for n, s in zip(reversed(sizes), reversed(strides)):
        dense &= n == 1 or s == step
        step *= n
    flat = flat[offset : last + 1]
    return flat.reshape(tuple(sizes)) if dense else flat.as_strided(tuple(sizes), tuple(strides), 0)


class _Node:
    """One operator of the graph."""

    __slots__ = ("name", "positional", "named", "outputs", "line", "call", "is_written", "target")

    def __init__(self, raw):
        target = raw["target"]
        self.target = target
        self.line = _line(raw.get("metadata", {}).get("stack_trace", ""))
        self.positional, self.named = [], {}
        for i in raw["inputs"]:
            if i.get("kind") == 2:
                if i["name"] not in _PLACES:
                    self.named[i["name"]] = i["arg"]
            else:
                self.positional.append(i["arg"])
        self.outputs = raw["outputs"]
        self.is_written = False
        if target.startswith("_operator."):
            word = target.removeprefix("_operator.")
            if word not in _ARITHMETIC:
                raise Unsupported(target)
            self.name, self.call = word, getattr(operator, word)
            return
        word = target.removeprefix("torch.ops.aten.").partition(".")[0]
        if target == f"torch.{word}" or not target.startswith("torch.ops.aten."):
            word = {"torch.sym_max": "sym_max", "torch.sym_min": "sym_min"}.get(target, "")
        self.name = word
        if word.endswith("_") and not word.startswith("_") and word[:-1] in ROWS:
            self.name, self.is_written = word[:-1], True
        extra = {"sym_size": lambda x, dim: x.shape[dim], "sym_max": max, "sym_min": min}
        self.call = ROWS.get(self.name) or extra.get(self.name)
        if self.call is None or self.name in RANDOM:
            raise Unsupported(target)


def _line(trace):
    """The user's line in a stack trace, as text."""
    lines = [x.strip() for x in trace.splitlines() if x.strip().startswith("File ")]
    return lines[0] if lines else ""


class TorchProgram(Module):
    """A program of `torch.export` with its parameters and buffers under PyTorch's names.

    It trains, and `tw.export` writes it for `talweg serve`. Batch norm and dropout of a program that was exported in
    training mode follow `train()` and `eval()`.
    """

    def __init__(self, archive):
        super().__init__()
        program = archive.json("models/model.json")
        graph = program["graph_module"]["graph"]
        signature = program["graph_module"]["signature"]
        if len(graph["nodes"]) > _NODES_MAX:
            _fail(f"{len(graph['nodes'])} operators are more than {_NODES_MAX}")
        nodes, missing = [], {}
        for raw in graph["nodes"]:
            try:
                nodes.append(_Node(raw))
            except Unsupported as e:
                missing.setdefault(str(e), _line(raw.get("metadata", {}).get("stack_trace", "")))
        if missing:
            listed = "; ".join(f"{op} ({line})" if line else op for op, line in sorted(missing.items()))
            _fail(f"operators that are not known here: {listed}")
        outputs = [_Result(o) for o in signature["output_specs"]]
        tree = _tree(program["graph_module"].get("module_call_graph", []))
        inputs = [_Input(i, self._take(archive, i)) for i in signature["input_specs"]]
        self.__dict__["_program"] = (nodes, inputs, outputs, tree)

    def _take(self, archive, spec):
        """The tensor that belongs to an input of the graph, registered under its name."""
        (kind, spec), *_ = spec.items()
        if kind in ("user_input", "constant_input"):
            return None
        if kind not in ("parameter", "buffer", "tensor_constant"):
            _fail(f"inputs of kind {kind!r} are not known")
        name = spec.get("parameter_name") or spec.get("buffer_name") or spec.get("tensor_constant_name")
        found = None
        for folder, file in (("data/weights", "model_weights_config.json"), ("data/constants", "model_constants_config.json")):
            if f"{folder}/{file}" in archive.entries:
                config = archive.json(f"{folder}/{file}")["config"].get(name)
                if config is not None:
                    found = (folder, config)
        if found is None:
            _fail(f"there is no weight {name!r}")
        value = _tensor(archive, *found)
        *path, last = name.split(".")
        owner = self
        for part in path:
            if part not in owner._modules:
                owner.add_module(part, Module())
            owner = owner._modules[part]
        if kind == "parameter":
            trains = found[1]["tensor_meta"].get("requires_grad", True) and value.dtype.is_floating_point
            owner.register_parameter(last, Parameter(value, requires_grad=bool(trains)))
        else:
            owner.register_buffer(last, value, persistent=bool(spec.get("persistent", False)))
        return (owner, last)

    def forward(self, *args, **kwargs):
        nodes, inputs, outputs, (takes, gives) = self.__dict__["_program"]
        flat = _flat(args, kwargs, takes)
        env, given = {}, iter(flat)
        for i in inputs:
            if i.owner is not None:
                env[i.name] = getattr(*i.owner)
            elif i.is_constant:
                next(given, None)
            else:
                try:
                    env[i.name] = next(given)
                except StopIteration:
                    raise value_error(f"the program takes {sum(not j.owner for j in inputs)} inputs, but {len(flat)} came") from None
        views = set()
        for node in nodes:
            self._run(node, env, views)
        results = []
        for out in outputs:
            if out.kind in ("user_output", "loss_output"):
                results.append(_value(out.arg, env))
            elif out.kind in ("buffer_mutation", "parameter_mutation"):
                self._written(out.target, env[out.arg["name"]])
            else:
                raise value_error(f"the program has an output of kind {out.kind!r}")
        return _shaped(results, gives)

    def _written(self, name, value):
        *path, last = name.split(".")
        owner = self
        for part in path:
            owner = owner._modules[part]
        getattr(owner, last).copy_(value)

    def _run(self, node, env, views):
        args = [_value(a, env) for a in node.positional]
        named = {k: _value(a, env) for k, a in node.named.items()}
        if node.name in ("batch_norm", "dropout", "feature_dropout"):
            at = 5 if node.name == "batch_norm" else 2
            args[at] = args[at] and self.training
        try:
            y = node.call(*args, **named)
        except (Unsupported, TypeError) as e:
            raise value_error(f"{node.target}: {e} ({node.line})") from e
        if node.is_written:
            first = node.positional[0]["as_tensor"]["name"]
            if first in views:
                raise value_error(
                    f"{node.target} writes to a view ({node.line}): save the program after ep.run_decompositions({{}})"
                )
            env[first] = y.to(env[first].dtype) if not _is_buffer(env[first]) else env[first].copy_(y)
            y = env[first]
        for out, value in zip(node.outputs, [y] if len(node.outputs) == 1 else y or ()):
            _bind(out, value, env)
            if node.name in _VIEWS:
                views.update(_names(out))


def _is_buffer(x):
    return isinstance(x, _native.Tensor) and getattr(x, "is_variable", False) is True


class _Input:
    def __init__(self, spec, owner):
        (kind, spec), *_ = spec.items()
        self.owner, self.is_constant = owner, kind == "constant_input"
        self.name = spec["name"] if self.is_constant else next(iter(_names(spec["arg"])), "")


class _Result:
    def __init__(self, spec):
        (self.kind, spec), *_ = spec.items()
        self.arg = spec["arg"]
        self.target = spec.get("buffer_name") or spec.get("parameter_name")


def _names(arg):
    """The names that an argument or result binds."""
    if "name" in arg and len(arg) <= 2 and isinstance(arg["name"], str):
        return [arg["name"]]
    (kind, value), *_ = arg.items()
    if kind in ("as_tensor", "as_sym_int", "as_sym_float", "as_sym_bool"):
        return [value.get("name") or value.get("as_name")]
    if kind == "as_tensors":
        return [v["name"] for v in value]
    if kind == "as_optional_tensor":
        return _names(value)
    return []


def _bind(out, value, env):
    names = _names(out)
    if len(names) == 1 and next(iter(out)) != "as_tensors":
        env[names[0]] = value
    else:
        env.update(zip(names, value))


def _value(arg, env):
    """The value of an argument."""
    (kind, value), *_ = arg.items()
    if kind == "name":
        return env[value]
    if kind in ("as_none", "as_device", "as_layout", "as_memory_format"):
        return None
    if kind in ("as_tensor", "as_sym_int", "as_sym_float", "as_sym_bool", "as_optional_tensor"):
        return _one(value, env)
    if kind in ("as_tensors", "as_sym_ints", "as_sym_floats", "as_sym_bools", "as_optional_tensors"):
        return [_one(v, env) for v in value]
    if kind == "as_scalar_type":
        if value not in _DTYPES:
            raise value_error(f"element type {value} is not known")
        return _native.dtype_of_name(_DTYPES[value])
    if kind in ("as_int", "as_ints", "as_float", "as_floats", "as_string", "as_strings", "as_bool", "as_bools", "as_int_lists"):
        return float(value) if isinstance(value, str) and kind == "as_float" else value
    raise value_error(f"arguments of kind {kind!r} are not known")


def _one(value, env):
    """A name, a number, or nothing."""
    for key in ("name", "as_name"):
        if key in value:
            return env[value[key]]
    (kind, inner), *_ = value.items()
    return None if kind == "as_none" else _one(inner, env) if isinstance(inner, dict) else inner


def _tree(calls):
    """The forms of the program's arguments and results."""
    for call in calls:
        if not call.get("fqn") and call.get("signature"):
            return tuple(json.loads(call["signature"][k])[1] for k in ("in_spec", "out_spec"))
    return None, None


def _flat(args, kwargs, spec):
    flat = []

    def walk(x):
        if isinstance(x, dict):
            for v in x.values():
                walk(v)
        elif isinstance(x, (list, tuple)):
            for v in x:
                walk(v)
        else:
            flat.append(x)

    if spec is not None and kwargs:
        names = json.loads(spec["children_spec"][1]["context"]) if spec.get("children_spec") else []
        kwargs = {n: kwargs[n] for n in names if n in kwargs} | kwargs
    walk(args)
    walk(kwargs)
    return flat


def _shaped(results, spec):
    """Results in the form that the program returns them: tuples, lists and dicts."""
    if spec is None:
        return results[0] if len(results) == 1 else tuple(results)
    given = iter(results)

    def build(spec):
        kind, children = spec.get("type"), spec.get("children_spec") or []
        if kind is None:
            return next(given)
        items = [build(c) for c in children]
        if kind == "builtins.dict" or kind == "collections.OrderedDict":
            names = json.loads(spec["context"]) if isinstance(spec["context"], str) else spec["context"]
            return dict(zip(names, items))
        return items if kind == "builtins.list" else tuple(items)

    return build(spec)


def read(file):
    """The program in a ``.pt2`` file."""
    try:
        return TorchProgram(_Archive(file))
    except (KeyError, TypeError, AttributeError, IndexError, ValueError) as e:
        if isinstance(e, (FormatError,)) or type(e).__module__.startswith("talweg"):
            raise
        _fail(f"the file is not as it should be: {type(e).__name__} {e}")
