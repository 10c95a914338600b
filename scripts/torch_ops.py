"""Runs PyTorch's operator cases on Talweg under PyTorch's own names and keywords, and counts what passes.

    python scripts/torch_ops.py                      values, dtypes and gradients of all operators
    python scripts/torch_ops.py --only 'linalg' -v   some operators, with every failure
    python scripts/torch_ops.py --seed 7             other numbers than those of PyTorch's tests
    python scripts/torch_ops.py --store python/tests/torch_cases.json
                                                     a small case of each, which the tests run without PyTorch

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
nn.functional.multi_head_attention_forward nn.functional.rrelu normal pca_lowrank rand_like randint randint_like randn randn_like svd_lowrank uniform
""".split()
# Their vectors have a free sign.
SIGNS = ["linalg.eig", "linalg.eigh", "linalg.svd", "svd"]


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
        return tw.device(str(x))
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


def with_grad(x, leaves, wanted, wide=False):
    """PyTorch's argument anew, with leaves where the sample asks for gradients; in double precision if `wide`."""
    if isinstance(x, torch.Tensor):
        if x.layout != torch.strided:
            raise Unsupported(f"layout {x.layout}")
        y = x.detach().clone()
        y = y.double() if wide and y.dtype == torch.float32 else y
        if wanted and x.requires_grad:
            leaves.append(y.requires_grad_(True))
            return y.clone()
        return y
    if isinstance(x, (tuple, list)) and not isinstance(x, torch.Size):
        return type(x)(with_grad(v, leaves, wanted, wide) for v in x)
    if isinstance(x, dict):
        return {k: with_grad(v, leaves, wanted, wide) for k, v in x.items()}
    return x


class Namespace:
    """Talweg in the place of `torch` inside the functions by which PyTorch's cases call some operators."""

    def __init__(self, ours, theirs):
        self.ours, self.theirs = ours, theirs

    def __getattr__(self, name):
        value = getattr(self.theirs, name)
        if isinstance(value, types.ModuleType):
            return Namespace(getattr(self.ours, name), value)
        return getattr(self.ours, name)


def rebound(f):
    """A function of PyTorch's test suite that calls Talweg."""
    space = {**f.__globals__, "torch": Namespace(tw, torch), "wrapper_set_seed": lambda f, *a, **k: f(*a, **k)}
    g = types.FunctionType(f.__code__, space, f.__name__, f.__defaults__, f.__closure__)
    g.__kwdefaults__ = f.__kwdefaults__
    return g


def found(name, op):
    """Talweg's function of a name, or the method of tensors. What the test suite calls by a function of its own is
    called by the same function."""
    if inspect.isfunction(op.op) and op.op.__module__.startswith("torch.testing"):
        return rebound(op.op)
    space = tw
    for part in name.split("."):
        space = getattr(space, part, None)
        if space is None:
            break
    if callable(space) and not inspect.ismodule(space) and not isinstance(space, (tw.dtype, type)):
        return space
    last = name.split(".")[-1]
    if "." not in name:
        method = getattr(tw.Tensor, last, None)
        if callable(method):
            return lambda x, *a, **k: getattr(x, last)(*a, **k)
        if method is not None:
            return lambda x: getattr(x, last)
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


def different(ours, theirs, exact, random):
    """What is wrong with a result, or None. `exact` is PyTorch's in double precision, if that is known: a result may
    be as far from it as PyTorch's own in single precision."""
    if not isinstance(theirs, torch.Tensor):
        if theirs is None or isinstance(theirs, (bool, int, str, torch.Size)):
            return None if ours == theirs else f"{ours!r}, not {theirs!r}"
        ours, theirs, exact = torch.tensor(ours), torch.tensor(theirs), None
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
    room = 1e-5 + 1e-4 * min(scale, 1e6)
    if torch.allclose(a, b, rtol=2e-3, atol=room, equal_nan=True):
        return None
    if isinstance(exact, torch.Tensor) and exact.shape == b.shape:
        c = exact.detach().resolve_conj().resolve_neg().to(wide)
        error = (b - c).abs().nan_to_num(0.0, 0.0, 0.0).max().item()
        if torch.allclose(a, c, rtol=2e-3, atol=room + 4 * error, equal_nan=True):
            return None
    if not torch.equal(a.isnan(), b.isnan()):
        return f"{int(a.isnan().sum())} NaNs, not {int(b.isnan().sum())}"
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


def expected(op, sample, grad, wide):
    """PyTorch's results, its leaves and their gradients."""
    leaves = []
    args = with_grad((sample.input, *sample.args), leaves, grad, wide)
    kwargs = with_grad(sample.kwargs, leaves, grad, wide)
    raw = op(*args, **kwargs)
    outs = sample.output_process_fn_grad(raw)
    outs = [outs] if isinstance(outs, torch.Size) else flat(outs)
    gradients = None
    loss = torch_loss([y for y in outs if isinstance(y, torch.Tensor)])
    if leaves and isinstance(loss, torch.Tensor) and loss.requires_grad:
        try:
            gradients = torch.autograd.grad(loss, leaves, allow_unused=True)
            gradients = [torch.zeros_like(x) if g is None else g for g, x in zip(gradients, leaves)]
        except (RuntimeError, NotImplementedError):
            gradients = None
    return raw, outs, gradients


def case(op, f, sample, grad):
    """None if the sample passes, else what is wrong."""
    random = op.name in RANDOM or bool(sample.kwargs.get("dropout_p"))
    try:
        raw, theirs, wanted = expected(op, sample, grad and not random, False)
    except Exception as e:
        raise Unsupported(f"PyTorch: {e}") from e
    leaves = []
    args = converted((sample.input, *sample.args), leaves)
    kwargs = converted(sample.kwargs, leaves)
    got = f(*args, **kwargs)
    missing = [n for n in getattr(raw, "_fields", ()) if not hasattr(got, n)]
    if missing:
        return f"no field {missing[0]}"
    process = sample.output_process_fn_grad
    ours = [tuple(got)] if isinstance(raw, torch.Size) else flat(process(back(got)))
    if len(ours) != len(theirs):
        return f"{len(ours)} results, not {len(theirs)}"
    why = compared(ours, theirs, [None] * len(theirs), random)
    mine = []
    if why is None and wanted is not None:
        marks = [weights(y) if isinstance(y, torch.Tensor) and y.requires_grad else None for y in theirs]
        our_loss(flat(process(got)), marks).backward()
        mine = [torch.zeros_like(w) if x.grad is None else back(x.grad) for x, w in zip(leaves, wanted)]
        why = compared(mine, wanted, [None] * len(wanted), False, "gradient")
    if why is None or random:
        return why
    try:
        _, exact, gradients = expected(op, sample, grad, True)
    except Exception:
        return why
    why = compared(ours, theirs, exact, random)
    return why or (mine and gradients and compared(mine, wanted, gradients, False, "gradient")) or None


def compared(ours, theirs, exact, random, what="result"):
    for i, (x, y, z) in enumerate(zip(ours, theirs, exact)):
        wrong = different(x, y, z, random)
        if wrong:
            return f"{what} {i}: {wrong}"
    return None


def samples(op, per_op, seed=None):
    kinds = [torch.float32, torch.int64, torch.complex64, torch.float8_e4m3fn]
    kind = next((k for k in kinds if op.supports_dtype(k, "cpu")), None)
    if kind is None:
        return []
    # Without a seed the numbers are those of PyTorch's own tests.
    torch.manual_seed(seed or 0)
    needs = op.supports_autograd and kind.is_floating_point
    cases = list(op.sample_inputs("cpu", kind, requires_grad=needs, set_seed=seed is None))
    return cases[:: max(1, len(cases) // per_op)][:per_op]


def run(op, per_op, grad, seed):
    """How many cases of an operator pass, how many there are, and what is wrong with the others."""
    passed, wrong, total = 0, [], 0
    cases = samples(op, per_op, seed)
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


def short(x):
    """A sample with numbers of few digits."""
    if isinstance(x, torch.Tensor):
        if x.layout != torch.strided:
            raise Unsupported(f"layout {x.layout}")
        y = x.detach().clone(memory_format=torch.contiguous_format)
        if y.is_floating_point():
            y = (y * 64).round() / 64
        return y.requires_grad_(x.requires_grad)
    if isinstance(x, (tuple, list)) and not isinstance(x, torch.Size):
        return type(x)(short(v) for v in x)
    return {k: short(v) for k, v in x.items()} if isinstance(x, dict) else x


def written(x):
    """An argument or a result as JSON."""
    if isinstance(x, torch.Tensor):
        data = x.detach().resolve_conj().resolve_neg()
        flat = torch.view_as_real(data).reshape(-1) if data.is_complex() else data.reshape(-1)
        values = [float(f"{v:.7g}") for v in flat.tolist()] if flat.is_floating_point() else flat.tolist()
        return {"tensor": [str(x.dtype)[6:], list(x.shape), values, x.requires_grad and x.is_leaf]}
    if isinstance(x, torch.dtype):
        return {"dtype": str(x)[6:]}
    if isinstance(x, slice):
        return {"slice": [x.start, x.stop, x.step]}
    if isinstance(x, torch.Size):
        return {"tuple": list(x)}
    if isinstance(x, tuple):
        return {"tuple": [written(v) for v in x]}
    if isinstance(x, list):
        return [written(v) for v in x]
    if isinstance(x, dict):
        return {"dict": {k: written(v) for k, v in x.items()}}
    if x is None or isinstance(x, (bool, int, float, str)):
        return x
    raise Unsupported(type(x).__name__)


def stored(op):
    """The smallest case that passes as it is, with its results and gradients, or None."""
    if op.name in RANDOM + SIGNS or (inspect.isfunction(op.op) and op.op.__module__.startswith("torch.testing")):
        return None

    def size(sample):
        return sum(x.numel() for x in flat([sample.input, *sample.args, *sample.kwargs.values()]) if isinstance(x, torch.Tensor))

    for sample in sorted((s for s in samples(op, 1000) if 2 <= size(s) <= 80), key=size)[:12]:
        signal.alarm(30)
        try:
            sample.input, sample.args, sample.kwargs = short(sample.input), short(sample.args), short(sample.kwargs)
            sample.output_process_fn_grad = lambda x: x
            if case(op, found(op.name, op), sample, True) is not None:
                continue
            _, outs, gradients = expected(op, sample, True, False)
            row = {"op": op.name, "args": [written(x) for x in (sample.input, *sample.args)]}
            row |= {"kwargs": {k: written(v) for k, v in sample.kwargs.items()}, "out": [written(x) for x in outs]}
            row["marks"] = [isinstance(y, torch.Tensor) and y.requires_grad for y in outs]
            row["grads"] = None if gradients is None else [written(g) for g in gradients]
            if len(json.dumps(row)) < 4000:
                return row
        except Exception:
            continue
        finally:
            signal.alarm(0)
    return None


def late(*_):
    raise Late


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--only", default="", help="a regular expression for names of operators")
    parser.add_argument("--per-op", type=int, default=12, help="cases per operator")
    parser.add_argument("--seed", type=int, help="of the cases' numbers; otherwise those of PyTorch's tests")
    parser.add_argument("--no-grad", action="store_true", help="compare values only")
    parser.add_argument("--differentiable", action="store_true", help="only operators with gradients")
    parser.add_argument("--json", help="write the result of every operator to this file")
    parser.add_argument("--store", help="write a small case of each operator that passes to this file")
    parser.add_argument("-v", "--verbose", action="store_true", help="show every failing case")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.store:
        signal.signal(signal.SIGALRM, late)
        rows = [r for r in (stored(op) for op in op_db if re.search(options.only, op.name)) if r is not None]
        with open(options.store, "w") as file:
            file.write("[\n" + ",\n".join(json.dumps(r, separators=(",", ":")) for r in rows) + "\n]\n")
        print(f"{len(rows)} cases")
        return
    signal.signal(signal.SIGALRM, late)
    table = {}
    for op in op_db:
        if not re.search(options.only, op.name):
            continue
        name = f"{op.name} ({op.variant_test_name})" if op.variant_test_name else op.name
        table[name] = (*run(op, options.per_op, not options.no_grad, options.seed), op.supports_autograd)
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
