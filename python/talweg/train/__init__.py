"""Training: the loop around a step, with checkpoints and progress; TensorFlow's names of optimizers."""

from .curves import curves
from .history import Callback, History
from .optimizers import (
    AdadeltaOptimizer,
    AdagradOptimizer,
    AdamOptimizer,
    GradientDescentOptimizer,
    MomentumOptimizer,
    Optimizer,
    RMSPropOptimizer,
)
from .progress import Progress, Silent
from .saved import load_checkpoint
from .trainer import Trainer

__all__ = [
    "AdadeltaOptimizer",
    "AdagradOptimizer",
    "AdamOptimizer",
    "Callback",
    "GradientDescentOptimizer",
    "History",
    "MomentumOptimizer",
    "Optimizer",
    "Progress",
    "RMSPropOptimizer",
    "Silent",
    "Trainer",
    "curves",
    "load_checkpoint",
]
