"""Learning rates as tensors of the global step."""

# mypy: ignore-errors
from __future__ import annotations

import math
from typing import Any

from . import maths
from .control_flow import case
from .graph import Tensor, convert_to_tensor
from .maths import cast, cos, floor, maximum, minimum


def _parts(learning_rate: Any, *rest: Any) -> list[Tensor]:
    rate = convert_to_tensor(learning_rate)
    return [rate, *[cast(convert_to_tensor(r), rate.dtype) for r in rest]]


def exponential_decay(learning_rate: Any, global_step: Any, decay_steps: Any, decay_rate: Any, staircase: bool = False, name: str | None = None) -> Tensor:
    """``learning_rate * decay_rate ** (global_step / decay_steps)``; whole powers with ``staircase``."""
    rate, step, steps, decay = _parts(learning_rate, global_step, decay_steps, decay_rate)
    p = step / steps
    return maths.multiply(rate, maths.pow(decay, floor(p) if staircase else p), name or "ExponentialDecay")


def natural_exp_decay(learning_rate: Any, global_step: Any, decay_steps: Any, decay_rate: Any, staircase: bool = False, name: str | None = None) -> Tensor:
    """``learning_rate * exp(-decay_rate * global_step / decay_steps)``."""
    rate, step, steps, decay = _parts(learning_rate, global_step, decay_steps, decay_rate)
    p = step / steps
    return rate * maths.exp(-decay * (floor(p) if staircase else p))


def inverse_time_decay(learning_rate: Any, global_step: Any, decay_steps: Any, decay_rate: Any, staircase: bool = False, name: str | None = None) -> Tensor:
    """``learning_rate / (1 + decay_rate * global_step / decay_steps)``."""
    rate, step, steps, decay = _parts(learning_rate, global_step, decay_steps, decay_rate)
    p = step / steps
    return rate / (1.0 + decay * (floor(p) if staircase else p))


def polynomial_decay(learning_rate: Any, global_step: Any, decay_steps: Any, end_learning_rate: float = 0.0001, power: float = 1.0, cycle: bool = False, name: str | None = None) -> Tensor:
    """From ``learning_rate`` to ``end_learning_rate`` in ``decay_steps``, along a power."""
    rate, step, steps, end, p = _parts(learning_rate, global_step, decay_steps, end_learning_rate, power)
    if cycle:
        times = maximum(maths.ceil(step / steps), 1.0)
        steps = steps * times
    else:
        step = minimum(step, steps)
    return (rate - end) * maths.pow(1.0 - step / steps, p) + end


def piecewise_constant(x: Any, boundaries: Any, values: Any, name: str | None = None) -> Tensor:
    """``values[0]`` up to and at ``boundaries[0]``, then ``values[1]``, and so on."""
    from .errors import invalid

    if len(values) != len(boundaries) + 1:
        raise invalid(f"piecewise_constant: {len(boundaries)} boundaries want {len(boundaries) + 1} values")
    step = convert_to_tensor(x)
    rates = [convert_to_tensor(v) for v in values]
    edges = [cast(convert_to_tensor(b), step.dtype) for b in boundaries]
    pairs = [(step <= b, lambda v=v: maths.multiply(v, convert_to_tensor(1, v.dtype))) for b, v in zip(edges, rates)]
    return case(pairs, lambda: maths.multiply(rates[-1], convert_to_tensor(1, rates[-1].dtype))) if pairs else rates[-1]


def cosine_decay(learning_rate: Any, global_step: Any, decay_steps: Any, alpha: float = 0.0, name: str | None = None) -> Tensor:
    """Half a cosine from ``learning_rate`` to ``alpha * learning_rate``."""
    rate, step, steps = _parts(learning_rate, global_step, decay_steps)
    share = minimum(step, steps) / steps
    return rate * ((1 - alpha) * (0.5 * (1.0 + cos(share * math.pi))) + alpha)


def cosine_decay_restarts(learning_rate: Any, global_step: Any, first_decay_steps: Any, t_mul: float = 2.0, m_mul: float = 1.0, alpha: float = 0.0, name: str | None = None) -> Tensor:
    """Half cosines, each ``t_mul`` times as long and ``m_mul`` times as high as the one before."""
    rate, step, steps = _parts(learning_rate, global_step, first_decay_steps)
    share = step / steps
    if t_mul == 1.0:
        i = floor(share)
        share = share - i
    else:
        i = floor(maths.log(1.0 - share * (1.0 - t_mul)) / math.log(t_mul))
        before = (1.0 - maths.pow(convert_to_tensor(t_mul, rate.dtype), i)) / (1.0 - t_mul)
        share = (share - before) / maths.pow(convert_to_tensor(t_mul, rate.dtype), i)
    height = maths.pow(convert_to_tensor(m_mul, rate.dtype), i)
    return rate * ((1 - alpha) * (0.5 * height * (1.0 + cos(share * math.pi))) + alpha)


def linear_cosine_decay(learning_rate: Any, global_step: Any, decay_steps: Any, num_periods: float = 0.5, alpha: float = 0.0, beta: float = 0.001, name: str | None = None) -> Tensor:
    """A line times a cosine."""
    rate, step, steps = _parts(learning_rate, global_step, decay_steps)
    step = minimum(step, steps)
    line = (steps - step) / steps
    wave = 0.5 * (1.0 + cos(math.pi * 2.0 * num_periods * step / steps))
    return rate * ((alpha + line) * wave + beta)
