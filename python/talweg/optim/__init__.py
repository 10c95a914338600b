"""Optimizers and learning-rate schedules with PyTorch's names and signatures; the built-in rules are implemented in Rust."""

from .._checked import check
from . import lr_scheduler as lr_scheduler
from . import swa_utils as swa_utils
from . import lbfgs as lbfgs
from . import rules as rules
from .lbfgs import *  # noqa: F403
from .native import Rule as Rule
from .optimizer import Optimizer as Optimizer
from .rules import *  # noqa: F403

__all__ = ["Optimizer", "Rule", "lr_scheduler", "swa_utils"]
__all__ += lbfgs.__all__
__all__ += rules.__all__

check(globals(), ["Optimizer", "Rule"])


def __getattr__(name: str) -> object:
    from .._differences import missing

    raise missing(".optim", name)
