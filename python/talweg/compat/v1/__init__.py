"""TensorFlow 1's names, for programs that build a graph and then run it.

``import talweg.compat.v1 as tf`` in place of ``import tensorflow as tf``.

>>> import talweg.compat.v1 as tf
>>> x = tf.placeholder(tf.float32, [None, 2], name="x")
>>> w = tf.Variable([[1.0], [2.0]])
>>> y = tf.matmul(x, w)
>>> y.shape.as_list()
[None, 1]
>>> with tf.Session() as sess:
...     sess.run(tf.global_variables_initializer())
...     sess.run(y, {x: [[1, 1], [2, 2], [3, 3]]}).tolist()
[[3.0], [6.0], [9.0]]

The graph is Python's: each operation knows its inputs and a partial static shape. ``Session.run`` lowers the part that it
needs for the sizes of the fed values, once for each set of sizes, and keeps the compiled plan.
"""

import math as _math

from . import errors, initializers, layers, losses, metrics, nest, nn, summary, train
from . import maths as math
from .arrays import *  # noqa: F403
from .arrays import slice_ as slice
from .constants import *  # noqa: F403
from .constants import range_ as range
from .control_flow import TensorArray, case, cond, foldl, foldr, group, map_fn, scan, while_loop
from .control_flow import tuple_ as tuple
from .dtypes import TYPES, DType, as_dtype
from .gradients import (
    UnconnectedGradients,
    clip_by_average_norm,
    clip_by_global_norm,
    clip_by_norm,
    global_norm,
    gradients,
    hessians,
)
from .graph import (
    Graph,
    GraphKeys,
    Operation,
    Tensor,
    add_to_collection,
    add_to_collections,
    constant,
    container,
    control_dependencies,
    convert_to_tensor,
    device,
    get_collection,
    get_collection_ref,
    get_default_graph,
    get_default_session,
    name_scope,
    register_tensor_conversion_function,
    reset_default_graph,
)
from .host import *  # noqa: F403
from .host import Assert, Print
from .host import print_ as print
from .initializers import (
    constant_initializer,
    glorot_normal_initializer,
    glorot_uniform_initializer,
    ones_initializer,
    orthogonal_initializer,
    random_normal_initializer,
    random_uniform_initializer,
    truncated_normal_initializer,
    uniform_unit_scaling_initializer,
    variance_scaling_initializer,
    zeros_initializer,
)
from .maths import *  # noqa: F403
from .platform import app, flags, gfile, logging
from .randoms import *  # noqa: F403
from .session import ConfigProto, GPUOptions, InteractiveSession, RunMetadata, RunOptions, Session
from .shapes import Dimension, TensorShape
from .summary import Summary
from .variables import *  # noqa: F403

globals().update(TYPES)
half, double = TYPES["float16"], TYPES["float64"]
pi = _math.pi
newaxis = None
op_scope = name_scope
OptimizerOptions = ConfigProto
__version__ = VERSION = "1.15"
GIT_VERSION = COMPILER_VERSION = "talweg"


def disable_v2_behavior() -> None:
    """Nothing: this is TensorFlow 1's behavior."""


disable_eager_execution = disable_v2_behavior


def executing_eagerly() -> "bool":
    """False: operations go to a graph."""
    return False


def enable_eager_execution(*_: object, **__: object) -> None:
    """Not there: ``import talweg`` is eager."""
    raise errors.unimplemented("enable_eager_execution: `import talweg as tw` is eager")


_ABSENT = {
    "estimator": "write the training loop with tf.train, or use talweg.train.Trainer",
    "data": "use talweg.utils.data.DataLoader and feed its batches",
    "contrib": "tf.layers, tf.nn.rnn_cell and tf.initializers have what most programs take from it",
    "keras": "use talweg.nn",
    "SparseTensor": "there are no sparse tensors: use dense ones and a mask",
    "sparse_placeholder": "there are no sparse tensors: use dense ones and a mask",
    "FIFOQueue": "there are no queues in the graph: feed batches of talweg.utils.data.DataLoader",
    "RandomShuffleQueue": "there are no queues in the graph: feed batches of talweg.utils.data.DataLoader",
    "TFRecordReader": "read files in Python and feed batches",
    "image": "use NumPy or talweg's ops before feeding",
    "distribute": "use `talweg launch`",
    "Server": "use `talweg launch`",
    "saved_model": "use tf.train.Saver",
    "feature_column": "encode features with NumPy and feed them",
    "distributions": "use talweg.distributions",
}


def __getattr__(name: str) -> object:
    if name in _ABSENT:
        raise errors.UnimplementedAttribute(errors.located(f"talweg.compat.v1 has no {name}: {_ABSENT[name]}"))
    if name.startswith("__"):
        raise AttributeError(name)
    import difflib

    near = difflib.get_close_matches(name, globals(), 1)
    hint = f"; nearest: {near[0]}" if near else ""
    raise AttributeError(f"talweg.compat.v1 has no {name!r}{hint}")
