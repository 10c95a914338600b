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

# mypy: ignore-errors
import math as _math

from . import (
    errors as errors,
    initializers as initializers,
    layers as layers,
    losses as losses,
    metrics as metrics,
    nest as nest,
    nn as nn,
    summary as summary,
    train as train,
)
from . import contrib as contrib
from . import linalg as linalg
from . import maths as math
from . import random as random
from .arrays import *  # noqa: F403
from .arrays import slice_ as slice
from .constants import *  # noqa: F403
from .constants import range_ as range
from .control_flow import (
    TensorArray as TensorArray,
    case as case,
    cond as cond,
    foldl as foldl,
    foldr as foldr,
    group as group,
    map_fn as map_fn,
    scan as scan,
    while_loop as while_loop,
)
from .control_flow import tuple_ as tuple
from .dtypes import (
    TYPES as TYPES,
    DType as DType,
    as_dtype as as_dtype,
)
from .gradients import (
    UnconnectedGradients as UnconnectedGradients,
    clip_by_average_norm as clip_by_average_norm,
    clip_by_global_norm as clip_by_global_norm,
    clip_by_norm as clip_by_norm,
    global_norm as global_norm,
    gradients as gradients,
    hessians as hessians,
)
from .graph import (
    Graph as Graph,
    GraphKeys as GraphKeys,
    Operation as Operation,
    Tensor as Tensor,
    add_to_collection as add_to_collection,
    add_to_collections as add_to_collections,
    constant as constant,
    container as container,
    control_dependencies as control_dependencies,
    convert_to_tensor as convert_to_tensor,
    device as device,
    get_collection as get_collection,
    get_collection_ref as get_collection_ref,
    get_default_graph as get_default_graph,
    get_default_session as get_default_session,
    name_scope as name_scope,
    register_tensor_conversion_function as register_tensor_conversion_function,
    reset_default_graph as reset_default_graph,
)
from .host import *  # noqa: F403
from .host import (
    Assert as Assert,
    Print as Print,
)
from .host import print_ as print
from .initializers import (
    constant_initializer as constant_initializer,
    glorot_normal_initializer as glorot_normal_initializer,
    glorot_uniform_initializer as glorot_uniform_initializer,
    ones_initializer as ones_initializer,
    orthogonal_initializer as orthogonal_initializer,
    random_normal_initializer as random_normal_initializer,
    random_uniform_initializer as random_uniform_initializer,
    truncated_normal_initializer as truncated_normal_initializer,
    uniform_unit_scaling_initializer as uniform_unit_scaling_initializer,
    variance_scaling_initializer as variance_scaling_initializer,
    zeros_initializer as zeros_initializer,
)
from .linalg import *  # noqa: F403
from .maths import *  # noqa: F403
from .platform import (
    app as app,
    flags as flags,
    gfile as gfile,
    logging as logging,
)
from .randoms import *  # noqa: F403
from .session import (
    ConfigProto as ConfigProto,
    GPUOptions as GPUOptions,
    InteractiveSession as InteractiveSession,
    RunMetadata as RunMetadata,
    RunOptions as RunOptions,
    Session as Session,
)
from .shapes import (
    Dimension as Dimension,
    TensorShape as TensorShape,
)
from .summary import Summary as Summary
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
