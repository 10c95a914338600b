"""Runs PyTorch's operator cases on Talweg under PyTorch's own names and keywords, and counts what passes.

    python scripts/torch_ops.py                      values, dtypes and gradients of all operators
    python scripts/torch_ops.py --only 'linalg' -v   some operators, with every failure

The cases are those of PyTorch's test suite (`op_db`). A case passes if the same call, with tensors converted, returns
values of the same shape, dtype and structure, and, where PyTorch differentiates, the same gradients. Random operators
are compared by shape and dtype. Nothing is adapted: a name is looked up in `talweg`, then among the methods of `Tensor`.
"""

import argparse
import collections
import inspect
import json
import re
import signal
import sys
import types
import unittest
import warnings

import numpy as np

# PyTorch's sample inputs import `expecttest`, of which they use nothing.
sys.modules.setdefault("expecttest", types.ModuleType("expecttest")).TestCase = unittest.TestCase

import torch  # noqa: E402
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

import talweg as tw  # noqa: E402

RANDOM = """
bernoulli cauchy empty empty_like empty_permuted empty_strided exponential geometric log_normal multinomial new_empty
new_empty_strided nn.functional.alpha_dropout nn.functional.dropout nn.functional.dropout2d nn.functional.dropout3d
nn.functional.feature_alpha_dropout nn.functional.fractional_max_pool2d nn.functional.fractional_max_pool3d
nn.functional.rrelu normal pca_lowrank rand_like randint randint_like randn randn_like svd_lowrank uniform
""".split()
# Differentiated by PyTorch's decomposition only, or of outputs that have a free phase.
VALUES_ONLY = {"geqrf"}
LAMBDAS = {"slice"}


class Unsupported(Exception):
    """The case cannot be put to Talweg: a sparse tensor, a generator."""


class Late(Exception):
    """The case ran past its time limit."""


def converted(x, leaves):
    """An argument as Talweg's; tensors with gradients are appended to `leaves`."""
    if isinstance(x, torch.Tensor):
        if x.layout != torch.strided or x.is_quantized:
            raise Unsupported(f"layout {x.layout}")
        data = x.detach().resolve_conj().resolve_neg()
        if x.dtype in (torch.bfloat16, torch.float8_e4m3fn, torch.float8_e5m2):
            y = tw.tensor(data.float().numpy().copy()).astype(dtype(x.dtype))
        else:
            y = tw.tensor(data.numpy().copy())
        if not x.requires_grad:
            return y
        y.requires_grad_(True)
        leaves.append(y)
        return y.clone()
    if isinstance(x, torch.dtype):
        return dtype(x)
    if isinstance(x, torch.device):
        return str(x)
    if isinstance(x, torch.layout):
        return tw.strided
    if isinstance(x, torch.memory_format):
        return getattr(tw, str(x)[6:])
    if isinstance(x, torch.Generator):
        raise Unsupported("generator")
    if isinstance(x, torch.nn.Module):
        return getattr(tw.nn, type(x).__name__)()
    if isinstance(x, types.FunctionType) and (x.__module__ or "").startswith("torch.nn.functional"):
        return getattr(tw.nn.functional, x.__name__)
    if isinstance(x, slice):
        return slice(*(converted(v, leaves) for v in (x.start, x.stop, x.step)))
    if isinstance(x, dict):
        return {k: converted(v, leaves) for k, v in x.items()}
    if isinstance(x, (tuple, list)):
        parts = [converted(v, leaves) for v in x]
        return tuple(parts) if isinstance(x, tuple) else parts
    return x


def dtype(x):
    return getattr(tw, str(x)[6:])


def with_grad(x, leaves, wanted):
    """PyTorch's argument anew, with leaves where the sample asks for gradients."""
    if isinstance(x, torch.Tensor):
        if x.layout != torch.strided:
            raise Unsupported(f"layout {x.layout}")
        y = x.detach().clone()
        if wanted and x.requires_grad:
            leaves.append(y.requires_grad_(True))
            return y.clone()
        return y
    if isinstance(x, (tuple, list)) and not isinstance(x, torch.Size):
        return type(x)(with_grad(v, leaves, wanted) for v in x)
    if isinstance(x, dict):
        return {k: with_grad(v, leaves, wanted) for k, v in x.items()}
    return x


def found(name, op):
    """Talweg's function of a name, or the method of tensors; PyTorch's own function if that only calls methods."""
    space = tw
    for part in name.split("."):
        space = getattr(space, part, None)
        if space is None:
            break
    if callable(space) and not inspect.ismodule(space) and not isinstance(space, (tw.dtype, type)):
        return space
    last = name.split(".")[-1]
    if "." not in name or name.startswith("special."):
        method = getattr(tw.Tensor, last, None)
        if callable(method):
            return lambda x, *a, **k: getattr(x, last)(*a, **k)
        if method is not None:
            return lambda x: getattr(x, last)
        in_place = getattr(tw.Tensor, last + "_", None)
        if name in RANDOM and in_place is not None:
            return lambda x, *a, **k: getattr(x, last + "_")(*a, **k)
    if name in LAMBDAS and inspect.isfunction(op.op):
        return op.op
    raise AttributeError(f"no name {name}")


def flat(x):
    """The tensors and numbers of a result, in order."""
    if isinstance(x, (tuple, list)) and not isinstance(x, torch.Size):
        return [leaf for part in x for leaf in flat(part)]
    return [x]


def back(x):
    """A result of Talweg's as PyTorch's."""
    if isinstance(x, tw.Tensor):
        name = x.dtype.name
        if name in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
            return torch.tensor(np.array(x.astype(tw.float32).numpy())).to(getattr(torch, name))
        return torch.tensor(np.array(x.numpy()))
    if isinstance(x, tuple) and hasattr(x, "_fields"):
        return collections.namedtuple("Result", x._fields)(*(back(v) for v in x))
    if isinstance(x, (tuple, list)):
        return tuple(back(v) for v in x)
    return x


def different(ours, theirs, random):
    """What is wrong with a result, or None."""
    if not isinstance(theirs, torch.Tensor):
        if theirs is None or isinstance(theirs, (bool, int, str)):
            return None if ours == theirs else f"{ours!r}, not {theirs!r}"
        if isinstance(theirs, torch.Size):
            return None if tuple(ours) == tuple(theirs) else f"{ours!r}, not {theirs!r}"
        ours, theirs = torch.tensor(ours), torch.tensor(theirs)
    if not isinstance(ours, torch.Tensor):
        return f"{type(ours).__name__}, not a tensor"
    if ours.dtype != theirs.dtype:
        return f"dtype {ours.dtype}, not {theirs.dtype}"
    if ours.shape != theirs.shape:
        return f"shape {tuple(ours.shape)}, not {tuple(theirs.shape)}"
    if random or theirs.numel() == 0:
        return None
    wide = torch.complex128 if theirs.is_complex() else torch.float64
    a, b = ours.to(wide), theirs.detach().resolve_conj().resolve_neg().to(wide)
    finite = b[b.isfinite()].abs()
    scale = finite.max().item() if finite.numel() else 0.0
    if torch.allclose(a, b, rtol=2e-3, atol=1e-5 + 1e-4 * min(scale, 1e6), equal_nan=True):
        return None
    return f"values differ by {(a - b).abs().nan_to_num().max().item():.3g} of {scale:.3g}"


def weights(x):
    """Fixed weights for the elements of an output."""
    return np.cos(np.arange(x.numel()) * 1.7 + 0.3).reshape(tuple(x.shape)).astype("float32")


def torch_loss(outs):
    total = 0.0
    for o in outs:
        w = torch.from_numpy(weights(o))
        total = total + ((o * w).real if o.is_complex() else o * w.to(o.dtype)).sum() if o.requires_grad else total
    return total


def our_loss(outs, marks):
    total = 0.0
    for o, mark in zip(outs, marks):
        if mark is not None:
            w = tw.tensor(mark)
            total = total + ((o * w).real if o.dtype.name.startswith("complex") else o * w.astype(o.dtype)).sum()
    return total


def case(op, f, sample, grad):
    """None if the sample passes, else what is wrong."""
    random = op.name in RANDOM
    leaves, theirs = [], []
    torch_args = with_grad((sample.input, *sample.args), theirs, grad)
    torch_kwargs = with_grad(sample.kwargs, theirs, grad)
    process = sample.output_process_fn_grad
    try:
        expected = op(*torch_args, **torch_kwargs)
        processed = process(expected)
    except Exception as e:
        raise Unsupported(f"PyTorch: {e}") from e
    marked = with_grad((sample.input, *sample.args), [], grad), with_grad(sample.kwargs, [], grad)
    del marked
    args = converted((sample.input, *sample.args), leaves)
    kwargs = converted(sample.kwargs, leaves)
    got = f(*args, **kwargs)
    if hasattr(expected, "_fields") and type(expected).__name__ != "Size":
        names = [n for n in expected._fields]
        missing = [n for n in names if not hasattr(got, n)]
        if missing:
            return f"no field {missing[0]}"
    ours = process(back(got))
    a, b = flat(ours), flat(processed)
    if len(a) != len(b):
        return f"{len(a)} results, not {len(b)}"
    for i, (x, y) in enumerate(zip(a, b)):
        wrong = different(x, y, random)
        if wrong:
            return wrong + (f" (result {i})" if len(a) > 1 else "")
    if not grad or random or op.name in VALUES_ONLY or not theirs:
        return None
    return gradients(process(got), b, leaves, theirs)


def gradients(got, expected, leaves, theirs):
    outs = flat(got)
    loss = torch_loss([y for y in expected if isinstance(y, torch.Tensor)])
    if not isinstance(loss, torch.Tensor) or not loss.requires_grad:
        return None
    try:
        wanted = torch.autograd.grad(loss, theirs, allow_unused=True)
    except (RuntimeError, NotImplementedError):
        return None
    marks = [weights(y) if isinstance(y, torch.Tensor) and y.requires_grad else None for y in expected]
    our_loss(outs, marks).backward()
    for i, (leaf, want) in enumerate(zip(leaves, wanted)):
        if want is None:
            want = torch.zeros_like(theirs[i])
        mine = leaf.grad
        mine = torch.zeros_like(theirs[i]) if mine is None else back(mine)
        wrong = different(mine, want, False)
        if wrong:
            return f"gradient of input {i}: {wrong}"
    return None


def samples(op, per_op):
    kinds = [torch.float32, torch.int64, torch.complex64, torch.float8_e4m3fn]
    kind = next((k for k in kinds if op.supports_dtype(k, "cpu")), None)
    if kind is None:
        return []
    torch.manual_seed(20261116)
    cases = list(op.sample_inputs("cpu", kind, requires_grad=op.supports_autograd and kind.is_floating_point))
    return cases[:: max(1, len(cases) // per_op)][:per_op]


def run(op, per_op, grad):
    """How many cases of an operator pass, how many there are, and what is wrong with the others."""
    passed, wrong, total = 0, [], 0
    cases = samples(op, per_op)
    for i, sample in enumerate(cases):
        signal.alarm(30)
        try:
            f = found(op.name, op)
            why = case(op, f, sample, grad)
        except Unsupported as e:
            if str(e).startswith("PyTorch"):
                continue
            why = f"unsupported: {e}"
        except Late:
            why = "ran past 30 s"
        except Exception as e:
            why = f"{type(e).__name__}: {e}"
        finally:
            signal.alarm(0)
        total += 1
        passed += why is None
        if why is not None:
            wrong.append((i, why))
    return passed, total, wrong


def late(*_):
    raise Late


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="", help="a regular expression for names of operators")
    parser.add_argument("--per-op", type=int, default=12, help="cases per operator")
    parser.add_argument("--no-grad", action="store_true", help="compare values only")
    parser.add_argument("--differentiable", action="store_true", help="only operators with gradients")
    parser.add_argument("--json", help="write the result of every operator to this file")
    parser.add_argument("-v", "--verbose", action="store_true", help="show every failing case")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, late)
    table = {}
    for op in op_db:
        if not re.search(options.only, op.name):
            continue
        name = f"{op.name} ({op.variant_test_name})" if op.variant_test_name else op.name
        table[name] = (*run(op, options.per_op, not options.no_grad), op.supports_autograd)
    for name, (passed, total, wrong, _) in table.items():
        if wrong:
            shown = wrong if options.verbose else wrong[:1]
            for i, why in shown:
                why = why.splitlines()[0][:150] if why.splitlines() else why
                print(f"{name:45} {passed:3}/{total:<3} #{i} {why}")
    for title, rows in [
        ("operators with gradients in float32", [r for r in table.values() if r[3] and r[1]]),
        ("all operators", [r for r in table.values() if r[1]]),
    ]:
        whole = sum(r[0] == r[1] for r in rows)
        print(f"{title}: {whole} of {len(rows)} pass; cases: {sum(r[0] for r in rows)} of {sum(r[1] for r in rows)}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(table, file, indent=1)


if __name__ == "__main__":
    main()
