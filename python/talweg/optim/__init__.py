"""Optimizers and schedules of learning rates with PyTorch's names and signatures; the built-in rules are the Rust side's."""

from .._checked import check
from . import lr_scheduler, swa_utils
from .lbfgs import *  # noqa: F403
from .lbfgs import __all__ as _lbfgs
from .native import Rule
from .optimizer import Optimizer
from .rules import *  # noqa: F403
from .rules import __all__ as _rules

__all__ = ["Optimizer", "Rule", "lr_scheduler", "swa_utils", *_lbfgs, *_rules]

check(globals(), ["Optimizer", "Rule"])


def __getattr__(name):
    from .._differences import missing

    raise missing(".optim", name)
