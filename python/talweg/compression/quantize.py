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
from .fold import fold_batch_norms
from .layers import BLOCK, BlockLinear, Fp8Linear, Int8Embedding, StaticConv, StaticLinear, quantized
from .report import Layer, Report, weight_bytes


class Compressed(NamedTuple):
    """A model, and what became of it."""

    model: nn.Module
    report: Report


_METHODS = ("int8", "int4", "static", "fp8")


def _candidates(method, layer, observer, calibration, percentile):
    """What a layer may become."""
    if method == "static":
        most = threshold(observer, calibration, percentile)
        mean = tw.tensor(np.asarray(observer.mean, np.float32))
        form = StaticLinear if type(layer) is nn.Linear else StaticConv
        return [("static int8", lambda: form(layer, most, mean, is_unsigned=observer.least >= 0))]
    if type(layer) is nn.Embedding:
        return [("int8 rows", lambda: Int8Embedding(layer))]
    if method == "fp8":
        return [("fp8 weights", lambda: Fp8Linear(layer))]
    fits = layer.in_features % BLOCK == 0
    if method == "int4":
        return [("int4 weights", lambda: BlockLinear(layer, "q4_0", int8=True))] if fits else []
    dynamic = ("dynamic int8", lambda: nn.QuantizedLinear(layer))
    return [dynamic, *([("int8 weights", lambda: BlockLinear(layer, "q8_0", int8=True))] if fits else [])]


def _timed(module, x, seconds=0.05):
    """Milliseconds of a call with weights compiled in: the least of short runs, as others may use the machine."""
    f = tw.jit(lambda x: module(x)).frozen()
    with tw.no_grad():
        f(x).numpy()
        start = time.perf_counter()
        f(x).numpy()
        count = max(1, int(seconds / 7 / max(time.perf_counter() - start, 1e-7)))
        runs = []
        for _ in range(7):
            start = time.perf_counter()
            for _ in range(count):
                f(x)
            f(x).numpy()
            runs.append((time.perf_counter() - start) / (count + 1))
    return float(min(runs) * 1e3)


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


def _axis(module, method):
    """The axis of a layer's input along which features lie, if the method has a form for the layer."""
    if type(module) is nn.Linear:
        return -1
    if type(module) is nn.Embedding:
        return -1 if method == "int8" and module.max_norm is None else None
    is_conv = type(module) in (nn.Conv1d, nn.Conv2d, nn.Conv3d) and module.padding_mode == "zeros"
    return -1 - module._rank if is_conv and method == "static" else None


def _observed(model, batches, method):
    """What each layer that may change sees: a histogram, and the first input."""
    seen, hooks = {}, []
    for name, module in model.named_modules():
        axis = _axis(module, method)
        if axis is not None:
            seen[name] = (module, Observer(axis), [])

            def hook(_, args, name=name):
                _, observer, first = seen[name]
                if args[0].is_floating_point():
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
    """A copy of a model with its layers in fewer bits, and a report: linear layers, and with ``"static"`` convolutions,
    after batch normalizations were folded into them.

    ``method`` is ``"int8"`` (weights in 8 bits; inputs quantized as they come, or in blocks: whichever is faster; rows of
    embeddings as well), ``"fp8"`` (weights in 8-bit floats, for their size), ``"int4"`` (weights in 4 bits, in groups of 32) or ``"static"`` (8 bits with ranges from ``calibration``:
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
    if method == "static":
        fold_batch_norms(small, batches[0])
    layers, old = [], {}
    for name, (layer, observer, (x, *_)) in _observed(small, batches, method).items():
        candidates = _candidates(method, layer, observer, calibration, percentile)
        made, row = _measured(name, layer, x, candidates, min_gain, min_sqnr)
        if made is not None:
            _set(small, name, made)
            old[name] = (layer, made, x)
        layers.append(row)
    small.eval()
    report = _report(model, small, layers, batches, evaluate, method)
    if report.gain < min(min_gain, 1.0) and _reverted(small, layers, old, min_gain):
        report = _report(model, small, layers, batches, evaluate, method)
    model.train(was_training)
    return Compressed(small, report)


def _measured(name, layer, x, candidates, min_gain, min_sqnr):
    """The fastest form of a layer that is good enough, or None, and what the report says of it."""
    before = _timed(layer, x)
    with tw.no_grad():
        y = layer(x).numpy()
    best, made = Layer(name, "float32", "float32", before, before, float("inf"), "no form fits its sizes"), None
    for form, make in candidates:
        candidate = make()
        after = _timed_between(candidate, x)
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
    return made, best


def _timed_between(module, x):
    """The time of a layer between others of its kind: a convolution in integers takes bytes, channels last, and returns
    them for the next one.
    """
    if not isinstance(module, StaticConv) or x.ndim != module.rank + 2:
        return _timed(module, x)
    first, last = (0, module.rank + 1, *range(1, module.rank + 1)), (0, *range(2, module.rank + 2), 1)
    bytes = lambda x: quantized(x, module.step, module.is_unsigned)  # noqa: E731
    with tw.no_grad():
        q = bytes(x).permute(last).contiguous()
    return _timed(lambda q: bytes(module._products(q.permute(first))).permute(last), q)


def _reverted(small, layers, old, min_gain):
    """Takes back layers that do not pay without neighbors of their kind, for a model that became slower; how many."""
    count = 0
    for i, row in enumerate(layers):
        if row.name not in old:
            continue
        layer, made, x = old[row.name]
        gain = row.before_ms / _timed(made, x)
        if gain < min_gain:
            why = f"{row.after} would be {gain:.2f} times as fast among layers of floats"
            layers[i] = Layer(row.name, "float32", "float32", row.before_ms, row.before_ms, float("inf"), why)
            _set(small, row.name, layer)
            count += 1
    return count


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


def compare(model, small, *, calibrate, evaluate=None, method="compressed"):
    """The report of a model that was made smaller by other means, such as `prune_channels`: size, time and error."""
    batches = _batches(calibrate or ())
    modes = [m.training for m in (model, small)]
    report = _report(model.eval(), small.eval(), [], batches, evaluate, method)
    for m, mode in zip((model, small), modes):
        m.train(mode)
    return report


class _Call(nn.Module):
    def __init__(self, model, rest):
        super().__init__()
        self.model, self.rest = model, rest

    def forward(self, x):
        y = self.model(x, *self.rest)
        return y if isinstance(y, tw.Tensor) else next(iter(y))
