"""Writes PyTorch's public names and their keywords, from which `docs/torch.md` is made:

python scripts/torch_names.py > python/tests/torch_names.json        (needs PyTorch; the page and its test do not)
"""

import inspect
import json
import re
import types

import torch
import torch.utils.data

SPACES = {
    "torch": torch,
    "torch.Tensor": torch.Tensor,
    "torch.nn": torch.nn,
    "torch.nn.functional": torch.nn.functional,
    "torch.linalg": torch.linalg,
    "torch.fft": torch.fft,
    "torch.optim": torch.optim,
    "torch.optim.lr_scheduler": torch.optim.lr_scheduler,
    "torch.utils.data": torch.utils.data,
}
# Python's own modules that PyTorch's happen to import.
FOREIGN = """
builtins ctypes dataclasses functools glob importlib inspect math np os platform sys textwrap threading torch types
typing typing_extensions warnings
""".split()

SCHEMAS = {}
for schema in torch._C._jit_get_all_schemas():
    if schema.name.startswith("aten::") and not any("Dimname" in str(a.type) for a in schema.arguments):
        SCHEMAS.setdefault(schema.name[6:], []).append([a.name for a in schema.arguments])


def is_public(space, name):
    value = getattr(space, name, None)
    if name.startswith("_") or name in FOREIGN:
        return False
    if isinstance(value, types.ModuleType):
        return value.__name__.startswith("torch")
    home = getattr(value, "__module__", None)
    if isinstance(value, (type, types.FunctionType)) and home is not None:
        return home.startswith("torch")
    return not repr(value).startswith("typing") and type(value).__module__ not in ("typing", "__future__")


def balanced(text):
    """The text up to the parenthesis that closes the one before it."""
    depth = 1
    for i, c in enumerate(text):
        depth += (c in "([{") - (c in ")]}")
        if depth == 0:
            return text[:i]
    return None


def split(text):
    """Arguments of a signature."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        depth += (c in "([{") - (c in ")]}")
        if c == "," and depth == 0:
            parts.append(text[start:i])
            start = i + 1
    return [p.strip() for p in [*parts, text[start:]] if p.strip()]


def documented(name, doc):
    """The keywords of all signatures that a docstring begins a line with, or None."""
    found = None
    for match in re.finditer(rf"(?m)^\s*(?:\.\. (?:function|method):: )?(?:[\w.]+\.)?{re.escape(name)}\(", doc or ""):
        inside = balanced(doc[match.end() :])
        if inside is None or (found is not None and "::" not in match.group(0)):
            continue
        names = []
        for part in split(inside):
            word = re.match(r"^\**\s*(?:[\w\[\], .|]*\s)?(\w+)\s*(?:[:=].*)?$", part.replace("\n", " "))
            if word is None or word.group(1) in ("args", "kwargs"):
                continue
            names.append(word.group(1))
        found = [*(found or []), *(n for n in names if n not in (found or []))]
    return found


def keywords(space, name, value):
    """What a function, method or class can be called with by keyword; None if nothing tells."""
    if isinstance(value, types.ModuleType) or not callable(value):
        return None
    if isinstance(value, type):
        if issubclass(value, BaseException):
            return None
        value = value.__init__
    elif inspect.isfunction(value) and list(inspect.signature(value).parameters) == ["args", "kwargs"]:
        value = getattr(space, "_" + name, value)  # PyTorch's dispatch by an argument
    try:
        parameters = inspect.signature(value).parameters.values()
        plain = [p.name for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
        if inspect.isfunction(value) and plain:
            return [p for p in plain if p != "self"]
    except (TypeError, ValueError):
        pass
    found = documented(name, value.__doc__)
    if space not in (torch, torch.Tensor) or name not in SCHEMAS:
        return found
    # What the docstrings call otherwise than the schemas cannot be given by keyword.
    overloads = [[n if n != "self" else "input" for n in names] for names in SCHEMAS[name]]
    every = [n for names in overloads for n in names]
    if found is None:
        found = every
    else:
        found = [n for n in found if n in every] + [n for n in overloads[0] if all(n in o for o in overloads)]
    left_out = ("input", "out") if space is torch.Tensor else ()
    return [n for n in dict.fromkeys(found) if n not in left_out]


def kind(value):
    if isinstance(value, types.ModuleType):
        return "module"
    if isinstance(value, type):
        return "class"
    return "function" if callable(value) else "value"


if __name__ == "__main__":
    out = {}
    for title, space in SPACES.items():
        names = [n for n in dir(space) if is_public(space, n)]
        rows = {n: [kind(getattr(space, n, None)), keywords(space, n, getattr(space, n, None))] for n in names}
        out[title] = rows
    lines = []
    for title, rows in out.items():
        body = ",\n".join(f"  {json.dumps(n)}: {json.dumps(r)}" for n, r in sorted(rows.items()))
        lines.append(f" {json.dumps(title)}: {{\n{body}\n }}")
    print(json.dumps({"version": torch.__version__.split("+")[0]})[:-1] + ",\n" + ",\n".join(lines) + "\n}")
