"""Training: the loop around a step, with checkpoints and progress; TensorFlow's names of optimizers."""

from .curves import curves
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
from .trainer import Callback, History, Trainer, load_checkpoint

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
