"""What is wrong with a call: the function, what it takes, and the spelling that was meant."""

import difflib
import inspect
import re

from . import _native
from .errors import CallError

# What Python and the native half say of a call that does not fit a signature.
_CALLS = re.compile(
    r"\(\) (got an unexpected keyword argument|got multiple values for argument|missing \d+ required|takes |"
    r"got some positional-only arguments)"
)
# What it says of a method of tensors that is called as a function: the tensor does not count.
_COUNTED = re.compile(r"(?<=takes )(?:from )?\d+(?: to \d+)?|(?<=but )\d+")
_NEEDS_TENSOR = re.compile(r"^unbound method ([\w.]+)\(\) needs an argument$")
_KEYWORD = re.compile(r"got an unexpected keyword argument '(\w+)'")
_NAMED = re.compile(r"^([\w.<>]+)\(\)")

# Other libraries' words for what is asked for here under another name.
_MEANT = {
    "learning_rate": "lr",
    "axis": "dim",
    "keepdims": "keepdim",
    "input_dim": "in_features",
    "output_dim": "out_features",
    "units": "out_features",
    "filters": "out_channels",
    "strides": "stride",
    "use_bias": "bias",
    "epsilon": "eps",
    "beta1": "betas",
    "beta2": "betas",
    "batchsize": "batch_size",
    "bs": "batch_size",
    "step": "step_size",
}


def parameters(f):
    """The names of what a function takes, without ``self``; ``None`` if that cannot be known."""
    try:
        found = list(inspect.signature(f).parameters.values())
    except (TypeError, ValueError):
        return None
    if found and found[0].name in ("self", "cls", "$self", "slf"):
        found = found[1:]
    if inspect.ismethoddescriptor(f):
        # A method of tensors as a function.
        found = [inspect.Parameter("input", inspect.Parameter.POSITIONAL_ONLY), *found]
    return found


def listed(found):
    """Parameters as people write them: ``(size, *, dtype, device)``."""
    words, is_starred = [], False
    for p in found:
        if p.kind is p.VAR_POSITIONAL:
            words.append(f"*{p.name}")
            is_starred = True
        elif p.kind is p.VAR_KEYWORD:
            words.append(f"**{p.name}")
        else:
            if p.kind is p.KEYWORD_ONLY and not is_starred:
                words.append("*")
                is_starred = True
            words.append(p.name)
    return f"({', '.join(words)})"


def nearest(word, names):
    """The name that was probably meant."""
    if _MEANT.get(word) in names:
        return _MEANT[word]
    close = difflib.get_close_matches(word, names, 1, 0.6)
    return close[0] if close else None


def call_error(f, name, error):
    """The exception for a ``TypeError`` that says that a call of ``f`` does not fit; ``None`` for any other."""
    text = _NEEDS_TENSOR.sub(r"\1() missing 1 required positional argument: 'input'", str(error))
    if not _CALLS.search(text):
        return None
    named = _NAMED.match(text)
    own = getattr(f, "__name__", "")
    if named and named.group(1).split(".")[-1] not in (own, name, "call", "__init__", "__new__"):
        return None
    found = parameters(f)
    keyword = _KEYWORD.search(text)
    takes = None if found is None else listed(found)
    if keyword:
        names = [p.name for p in found or [] if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD, p.POSITIONAL_ONLY)]
        return _unknown(name, takes, keyword.group(1), names)
    if inspect.ismethoddescriptor(f):
        text = _COUNTED.sub(lambda m: re.sub(r"\d+", lambda n: str(int(n[0]) + 1), m[0]), text)
        text = text.replace("1 positional arguments", "1 positional argument")
    what = f"{name}() {_NAMED.sub('', text).strip()}"
    return CallError(_native.located(what if takes is None else f"{what}; it takes {takes}"))


def unknown_keyword(name, takes, keyword):
    """The exception for a keyword that a method of tensors does not take."""
    return _unknown(name, takes, keyword, re.findall(r"\b[a-z_]\w*(?=[=,)])", takes))


def _unknown(name, takes, keyword, names):
    meant = nearest(keyword, names)
    what = f"{name}() got an unexpected keyword {keyword!r}"
    if takes is not None:
        what += f"; did you mean {meant!r}? It takes {takes}" if meant else f"; it takes {takes}"
    return CallError(_native.located(what))
