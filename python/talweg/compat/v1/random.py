"""``tf.random``."""

from .randoms import categorical, multinomial, set_random_seed, truncated_normal  # noqa: F401
from .randoms import random_normal as normal  # noqa: F401
from .randoms import random_shuffle as shuffle  # noqa: F401
from .randoms import random_uniform as uniform  # noqa: F401
