"""Writes PyTorch's defaults of layers, functions, optimizers and schedules, for tests that run without PyTorch:
``python scripts/torch_defaults.py > python/tests/torch_defaults.json`` (needs PyTorch)."""

import inspect
import json

import torch
from torch import nn, optim
from torch.optim import lr_scheduler

PLACES = {"nn": nn, "nn.functional": nn.functional, "optim": optim, "optim.lr_scheduler": lr_scheduler}


def plain(value):
    """A default in JSON's types, or ``None`` twice if it has none."""
    if isinstance(value, (tuple, list)):
        parts = [plain(v) for v in value]
        return ([p for p, _ in parts], all(ok for _, ok in parts))
    is_plain = value is None or type(value) in (bool, int, float, str)
    return (value if is_plain else None, is_plain)


def defaults(thing):
    try:
        parameters = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        return {}
    found = {p.name: plain(p.default) for p in parameters if p.default is not inspect.Parameter.empty}
    return {name: value for name, (value, ok) in found.items() if ok}


out = {}
for place, module in PLACES.items():
    for name in sorted(dir(module)):
        thing = getattr(module, name)
        is_own = getattr(thing, "__module__", "").startswith("torch")
        if not name.startswith("_") and is_own and (inspect.isclass(thing) or inspect.isfunction(thing)):
            found = defaults(thing)
            if found:
                out[f"{place}.{name}"] = found
lines = [f"{json.dumps(name)}: {json.dumps(found)}" for name, found in sorted(out.items())]
print("{\n" + ",\n".join(lines) + "\n}")
