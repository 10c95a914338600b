"""Talweg: tensors, differentiation, models and graphs.

>>> import talweg as tw
>>> x = tw.tensor([1.0, 2.0], requires_grad=True)
>>> (x * x).sum().backward()
>>> x.grad
tensor([2., 4.])

The namespace itself follows the Python array API standard; NumPy's and PyTorch's spellings work
where the standard has another. Nothing is computed before somebody looks at a value.
"""

import math as _math
import os as _os

from . import _native, errors
from ._names import ALIASES as _ALIASES
from ._native import (
    Graph,
    Op,
    Tensor,
    Update,
    __version__,
    add_pass,
    arange,
    dtype,
    empty,
    empty_like,
    eye,
    from_dlpack,
    full,
    full_like,
    graph,
    linspace,
    manual_seed,
    ones,
    ones_like,
    placeholder,
    rand,
    randint,
    randn,
    random_key,
    randperm,
    tensor,
    uniform,
    zeros,
    zeros_like,
)
from .errors import (
    ArgumentError,
    DeadlineError,
    DeviceError,
    DTypeError,
    Error,
    FeedError,
    FileError,
    FormatError,
    GradientError,
    InternalError,
    NameMissingError,
    NumericsError,
    OutOfMemoryError,
    OutOfRangeError,
    PeerLostError,
    RefusedError,
    ShapeError,
)

_native.set_package(_os.path.dirname(__file__) + _os.sep)

bool = dtype("bool")
uint8 = dtype("uint8")
int8 = dtype("int8")
uint16 = dtype("uint16")
int16 = dtype("int16")
uint32 = dtype("uint32")
int32 = dtype("int32")
uint64 = dtype("uint64")
int64 = dtype("int64")
float8_e4m3fn = dtype("float8_e4m3fn")
float8_e5m2 = dtype("float8_e5m2")
float16 = dtype("float16")
bfloat16 = dtype("bfloat16")
float32 = dtype("float32")
float64 = dtype("float64")
complex64 = dtype("complex64")
complex128 = dtype("complex128")

e = _math.e
inf = _math.inf
nan = _math.nan
newaxis = None
pi = _math.pi

asarray = tensor
array = tensor
as_tensor = tensor

from ._checked import function as _function  # noqa: E402
from ._standard import _BINARY, _either_side  # noqa: E402

# Every op of the table is a function of the package and a method of its tensors. Those of the
# standard that the table spells otherwise follow in `_standard`.
for _name in _native.OPS:
    if _name != "fft":  # the standard's namespace of that name
        globals().setdefault(_name, _function(_name))

from ._standard import *  # noqa: E402, F403

for _name in _BINARY:
    globals()[_name] = _either_side(globals()[_name])

from . import cuda, distributed, fft, linalg, metrics, random  # noqa: E402
from ._devices import GradScaler, autocast, device, devices, get_default_device, set_default_device  # noqa: E402
from ._graph import Session, Variable, cond, fori_loop, scan, while_loop  # noqa: E402
from ._habits import *  # noqa: E402, F403
from ._state import load, no_grad, enable_grad, save, set_grad_enabled, is_grad_enabled  # noqa: E402
from ._transforms import (  # noqa: E402
    checkpoint,
    custom_gradient,
    grad,
    hessian,
    jacobian,
    jit,
    jvp,
    value_and_grad,
    vmap,
)
from . import nn, optim, train, utils  # noqa: E402
from . import testing  # noqa: E402

__array_api_version__ = "2024.12"
