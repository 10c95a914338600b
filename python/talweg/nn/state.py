"""State of modules: what ``state_dict`` collects and ``load_state_dict`` takes, and moves to types and devices."""

from .. import _native
from .._checked import key_error, type_error, value_error
from .._graph import has_grad
from .._native import Tensor, dtype as _dtype
from .parameter import Parameter, is_lazy

_EXTRA = "_extra_state"


def collect(module, destination, prefix, keep_vars):
    """The state of a module and of all below it."""
    for hook in _hooks(module, "_state_dict_pre_hooks"):
        hook(module, prefix, keep_vars)
    module._save_to_state_dict(destination, prefix, keep_vars)
    if hasattr(type(module), "get_extra_state"):
        destination[prefix + _EXTRA] = module.get_extra_state()
    for name, child in module._modules.items():
        if child is not None:
            child.state_dict(destination=destination, prefix=f"{prefix}{name}.", keep_vars=keep_vars)
    for hook in _hooks(module, "_state_dict_hooks"):
        changed = hook(module, destination, prefix, {})
        destination = destination if changed is None else changed
    return destination


def _hooks(module, kind):
    return list(module.__dict__.get(kind, {}).values())


def _host(value):
    """A tensor of another library as something that can be read: PyTorch's must leave autograd first."""
    if isinstance(value, Tensor):
        return value
    return _native.tensor(value.detach().cpu() if hasattr(value, "detach") and hasattr(value, "cpu") else value)


def load_own(module, state_dict, prefix, metadata, missing_keys, error_msgs):
    """Notes what becomes of a module's own variables; ``load`` carries it out if all fits."""
    for kind in ("_parameters", "_buffers"):
        for name, variable in module.__dict__[kind].items():
            key = prefix + name
            if variable is None or name in module._non_persistent_buffers_set:
                continue
            if key not in state_dict:
                missing_keys.append(key)
                continue
            value = _host(state_dict[key])
            if value.shape != variable.shape and not is_lazy(variable):
                error_msgs.append(f"{key} is {tuple(variable.shape)}, but the value is {tuple(value.shape)}")
                continue
            metadata["pending"].append((module, kind, name, value))
    key = prefix + _EXTRA
    if hasattr(type(module), "set_extra_state"):
        if key in state_dict:
            metadata["pending"].append((module, None, None, state_dict[key]))
        else:
            missing_keys.append(key)


def load(module, state_dict, strict, assign):
    """Loads a state dict; returns the missing and the unexpected keys."""
    if not hasattr(state_dict, "keys"):
        raise type_error(f"load_state_dict: expected a dict of tensors by path, not {type(state_dict).__name__}")
    given = dict(state_dict)
    missing, unexpected, wrong, pending, seen = [], [], [], [], []

    def visit(m, prefix):
        metadata = {"pending": pending, "assign_to_params_buffers": assign}
        for hook in _hooks(m, "_load_state_dict_pre_hooks"):
            hook(m, given, prefix, metadata, strict, missing, unexpected, wrong)
        m._load_from_state_dict(given, prefix, metadata, strict, missing, unexpected, wrong)
        seen.extend(prefix + n for kind in ("_parameters", "_buffers") for n, v in m.__dict__[kind].items() if v is not None)
        if hasattr(type(m), "set_extra_state"):
            seen.append(prefix + _EXTRA)
        for name, child in m._modules.items():
            if child is not None:
                visit(child, f"{prefix}{name}.")
        for hook in _hooks(m, "_load_state_dict_post_hooks"):
            hook(m, _Keys(missing, unexpected))

    visit(module, "")
    unexpected.extend(n for n in given if n not in set(seen) and n not in unexpected)
    if strict and (missing or unexpected):
        raise key_error(f"load_state_dict: missing {missing}, unexpected {unexpected}")
    if wrong:
        raise value_error(f"load_state_dict: {'; '.join(wrong)}")
    for m, kind, name, value in pending:
        _take(m, kind, name, value, assign)
    return missing, unexpected


class _Keys:
    def __init__(self, missing_keys, unexpected_keys):
        self.missing_keys, self.unexpected_keys = missing_keys, unexpected_keys


def _take(module, kind, name, value, assign):
    if kind is None:
        module.set_extra_state(value)
        return
    entries = module.__dict__[kind]
    old = entries[name]
    if kind == "_parameters" and (assign or is_lazy(old)):
        entries[name] = Parameter(value.detach(), old.requires_grad)
    elif assign:
        entries[name] = Tensor(value, variable=True, trainable=False)
    else:
        old.assign(value.astype(old.dtype))


def device_name(device):
    """A device's name, from a name, a number or an object."""
    if isinstance(device, str):
        return device
    if isinstance(device, int):
        return f"cuda:{device}"
    value = getattr(device, "_value", None)
    return value if isinstance(value, str) else str(device)


def place(args, kwargs):
    """The device and the type that the arguments of ``to`` name."""
    known = {"device", "dtype", "non_blocking", "copy", "memory_format", "tensor"}
    if set(kwargs) - known:
        raise type_error(f"to: there is no argument {sorted(set(kwargs) - known)[0]!r}; there are device, dtype, non_blocking")
    device, dtype = kwargs.get("device"), kwargs.get("dtype")
    args = [*args, *([kwargs["tensor"]] if "tensor" in kwargs else [])]
    for a in args:
        if isinstance(a, Tensor):
            device, dtype = a.device, a.dtype
        elif isinstance(a, _dtype):
            dtype = a
        elif isinstance(a, bool):  # non_blocking: copies are ordered by the device's stream
            continue
        elif a is not None:
            device = a
    if dtype is not None:
        dtype = _dtype(dtype)
        if "float" not in str(dtype) and "complex" not in str(dtype):
            raise type_error(f"to: parameters have a floating-point type, not {dtype}")
    return None if device is None else device_name(device), dtype


def convert(module, device, dtype):
    """Moves all variables of a module; those that are tied stay tied."""
    made = {}

    def converted(t):
        if t.variable_id in made:
            return made[t.variable_id]
        new = t
        if dtype is not None and t.dtype != dtype and ("float" in str(t.dtype) or "complex" in str(t.dtype)) and not is_lazy(t):
            new = _retyped(t, dtype)
        if device is not None:
            _native.move_to(new, device)
        made[t.variable_id] = made[new.variable_id] = new
        return new

    for m in module.modules():
        for entries in (m._parameters, m._buffers):
            for name, t in entries.items():
                if t is not None:
                    entries[name] = converted(t)
    return module


def _retyped(t, dtype):
    if not isinstance(t, Parameter):
        return Tensor(t.detach().astype(dtype), variable=True, trainable=False)
    new = type(t)(t.detach().astype(dtype), t.requires_grad)
    new.__dict__.update(t._attributes())
    if has_grad(t):
        new.grad = t.grad.astype(dtype)
    t.__dict__["_is_replaced"] = True
    return new
