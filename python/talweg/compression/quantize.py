"""`tw.compress`: layers in fewer bits, each measured, with a report."""

# mypy: ignore-errors
import copy
import time
from typing import NamedTuple

import numpy as np

import talweg as tw
from .. import nn
from .._checked import type_error, value_error
from .calibrate import Observer, threshold
from .layers import BLOCK, BlockLinear, StaticLinear
from .report import Layer, Report, weight_bytes


class Compressed(NamedTuple):
    """A model, and what became of it."""

    model: nn.Module
    report: Report


_METHODS = ("int8", "int4", "static")


def _candidates(method, layer, observer, calibration, percentile):
    """What a layer may become."""
    fits = layer.in_features % BLOCK == 0
    if method == "int4":
        return [("int4 weights", lambda: BlockLinear(layer, "q4_0", int8=True))] if fits else []
    if method == "static":
        most = threshold(observer, calibration, percentile)
        mean = tw.tensor(np.asarray(observer.mean, np.float32))
        return [("static int8", lambda: StaticLinear(layer, most, mean))]
    dynamic = ("dynamic int8", lambda: nn.QuantizedLinear(layer))
    return [dynamic, *([("int8 weights", lambda: BlockLinear(layer, "q8_0", int8=True))] if fits else [])]


def _timed(module, x, seconds=0.05):
    """Milliseconds of a call with weights compiled in: the median of short runs."""
    f = tw.jit(lambda x: module(x)).frozen()
    with tw.no_grad():
        f(x).numpy()
        start = time.perf_counter()
        f(x).numpy()
        count = max(1, int(seconds / 5 / max(time.perf_counter() - start, 1e-7)))
        runs = []
        for _ in range(5):
            start = time.perf_counter()
            for _ in range(count):
                f(x)
            f(x).numpy()
            runs.append((time.perf_counter() - start) / (count + 1))
    return float(np.median(runs) * 1e3)


def _noise(y, z):
    """The ratio of signal to noise in decibels."""
    y, z = y.astype(np.float64), z.astype(np.float64)
    noise = ((y - z) ** 2).sum()
    return float(10 * np.log10((y**2).sum() / noise)) if noise else float("inf")


def _batches(calibrate):
    batches = [b if isinstance(b, (tuple, list)) else (b,) for b in calibrate]
    if not batches:
        raise value_error("compress: calibrate has no batch; give some inputs of the model")
    return batches


def _observed(model, batches):
    """What each linear layer sees: a histogram, and the first input."""
    seen, hooks = {}, []
    for name, module in model.named_modules():
        if type(module) is nn.Linear:
            seen[name] = (module, Observer(), [])

            def hook(_, args, name=name):
                _, observer, first = seen[name]
                observer.update(args[0])
                if not first:
                    first.append(args[0].detach())

            hooks.append(module.register_forward_pre_hook(hook))
    with tw.no_grad():
        for batch in batches:
            model(*batch)
    for hook in hooks:
        hook.remove()
    return {name: s for name, s in seen.items() if s[2]}


def compress(model, method="int8", *, calibrate=None, evaluate=None, calibration="percentile", percentile=99.99, min_gain=1.0,
             min_sqnr=None):  # fmt: skip
    """A copy of a model with its linear layers in fewer bits, and a report.

    ``method`` is ``"int8"`` (weights in 8 bits; inputs quantized as they come, or in blocks: whichever is faster),
    ``"int4"`` (weights in 4 bits, in groups of 32) or ``"static"`` (8 bits with ranges from ``calibration``:
    ``"minmax"``, ``"percentile"`` or ``"entropy"``). ``calibrate`` is a list of inputs, each a tensor or a tuple.

    Each layer is measured on the first of them. It stays as it is unless it becomes at least ``min_gain`` times as fast
    and, where given, keeps a ratio of signal to noise of ``min_sqnr`` decibels. ``evaluate(model)`` is a figure of merit
    that the report has for both models; hold its data apart from ``calibrate``.
    """
    if not isinstance(method, str) or method not in _METHODS:
        raise value_error(f"compress: there is no method {method!r}; there are {', '.join(_METHODS)}")
    if not isinstance(model, nn.Module):
        raise type_error(f"compress: expected a module, not {type(model).__name__}")
    batches = _batches(calibrate or ())
    was_training = model.training
    model.eval()
    small = copy.deepcopy(model)
    layers = []
    for name, (layer, observer, (x, *_)) in _observed(small, batches).items():
        before = _timed(layer, x)
        with tw.no_grad():
            y = layer(x).numpy()
        best = Layer(name, "float32", "float32", before, before, float("inf"), "no form fits its sizes")
        made = None
        for form, make in _candidates(method, layer, observer, calibration, percentile):
            candidate = make()
            after = _timed(candidate, x)
            with tw.no_grad():
                sqnr = _noise(y, candidate(x).numpy())
            if before / after < min_gain:
                why = f"{form} would be {before / after:.2f} times as fast"
            elif min_sqnr is not None and sqnr < min_sqnr:
                why = f"{form} would keep {sqnr:.1f} dB"
            else:
                why = None
            if why is None and (made is None or after < best.after_ms):
                best, made = Layer(name, "float32", form, before, after, sqnr, ""), candidate
            elif made is None:
                best = Layer(name, "float32", "float32", before, before, float("inf"), why)
        if made is not None:
            _set(small, name, made)
        layers.append(best)
    small.eval()
    report = _report(model, small, layers, batches, evaluate, method)
    model.train(was_training)
    return Compressed(small, report)


def _set(model, name, module):
    *path, last = name.split(".")
    for part in path:
        model = model._modules[part]
    setattr(model, last, module)


def _report(model, small, layers, batches, evaluate, method):
    first = batches[0]
    with tw.no_grad():
        outputs = [m(*first) for m in (model, small)]
    outputs = [o if isinstance(o, tw.Tensor) else next(iter(o)) for o in outputs]
    a, b = (o.numpy().astype(np.float64) for o in outputs)
    times = []
    for m in (model, small):
        times.append(_timed(_Call(m, first[1:]), first[0], 0.2))
    figures = [None, None] if evaluate is None else [float(evaluate(m)) for m in (model, small)]
    return Report(
        method=method, layers=layers, bytes_before=weight_bytes(model), bytes_after=weight_bytes(small),
        ms_before=times[0], ms_after=times[1], error_max=float(np.abs(a - b).max()), sqnr=_noise(a, b),
        figure_before=figures[0], figure_after=figures[1],
    )  # fmt: skip


class _Call(nn.Module):
    def __init__(self, model, rest):
        super().__init__()
        self.model, self.rest = model, rest

    def forward(self, x):
        y = self.model(x, *self.rest)
        return y if isinstance(y, tw.Tensor) else next(iter(y))
