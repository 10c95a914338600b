"""``tf.train``."""

# mypy: ignore-errors
from .optimizers import *  # noqa: F403
from .optimizers import Optimizer  # noqa: F401
from .saver import *  # noqa: F403
from .schedules import (  # noqa: F401
    cosine_decay,
    cosine_decay_restarts,
    exponential_decay,
    inverse_time_decay,
    linear_cosine_decay,
    natural_exp_decay,
    piecewise_constant,
    polynomial_decay,
)
from .training import *  # noqa: F403

piecewise_constant_decay = piecewise_constant
