"""Rules of consistency in Python, for ``talweg launch --consistency FILE.py:FUNCTION``."""

from __future__ import annotations

import importlib.util
import random
from collections.abc import Callable
from pathlib import Path

Admit = Callable[[int, list[int]], bool]


def find(text: str) -> Admit:
    """The function that a text names, loaded and tried."""
    path, _, name = text.rpartition(":")
    if not Path(path).is_file():
        raise FileNotFoundError(f"there is no file {path}")
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    rule = getattr(module, name, None)
    if not callable(rule):
        raise AttributeError(f"{path} has no function {name}")
    check(rule)
    return rule


def check(admit: Admit, trials: int = 200) -> None:
    """Fails if a rule revokes an admission when workers make progress, or admits no worker when all
    are at the same step.

    >>> from talweg._rules import check
    >>> check(lambda step, settled: step <= min(settled) + 2)
    >>> check(lambda step, settled: step < min(settled))
    Traceback (most recent call last):
    ValueError: no worker can continue: a read at step 0 is not admitted when all workers have settled 0 steps
    """
    draw = random.Random(0)
    for _ in range(trials):
        settled = [draw.randrange(6) for _ in range(draw.randint(1, 4))]
        step = draw.randrange(10)
        more = list(settled)
        more[draw.randrange(len(more))] += draw.randint(1, 3)
        if admit(step, list(settled)) and not admit(step, more):
            raise ValueError(f"a read at step {step} is admitted with {settled} settled, but not with {more}")
    for done in range(4):
        if not admit(done, [done] * 3):
            e = f"a read at step {done} is not admitted when all workers have settled {done} steps"
            raise ValueError(f"no worker can continue: {e}")
