"""Talweg: tensors, differentiation, models and graphs.

>>> import talweg as tw
>>> x = tw.tensor([1.0, 2.0], requires_grad=True)
>>> (x * x).sum().backward()
>>> x.grad
tensor([2., 4.])

The namespace follows PyTorch; the Python array API standard has its own, `talweg.array_api`. Evaluation is lazy:
nothing runs until you read a value. Examples in docstrings assume ``import talweg as tw``.
"""

import math as _math
import os as _os
import sys as _sys
from importlib import import_module as _import_module

from . import _native, errors
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
    remove_pass,
    tensor,
    uniform,
    zeros,
    zeros_like,
)
from .errors import (
    AbsentNameError,
    ArgumentError,
    CallError,
    DeadlineError,
    DeviceError,
    DTypeError,
    Error,
    FeedError,
    FileError,
    FileMissingError,
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
    TraceError,
)

_native.set_package(_os.path.dirname(__file__) + _os.sep)

# One object a type.
for _name in """bool uint8 int8 uint16 int16 uint32 int32 uint64 int64 float8_e4m3fn float8_e5m2 float16 bfloat16 float32 float64
complex64 complex128""".split():
    globals()[_name] = _native.dtype_of_name(_name)

e = _math.e
inf = _math.inf
nan = _math.nan
newaxis = None
pi = _math.pi

from . import _ops, return_types  # noqa: E402, F401
from ._checked import written as _written  # noqa: E402
from ._functions import PUBLIC as _PUBLIC  # noqa: E402

# Every op of the table is a function of the package and a method of its tensors; those that PyTorch spells otherwise
# are in `_functions`.
for _name in _native.OPS:
    if _name != "fft":  # the namespace of that name
        globals().setdefault(_name, _written(_name))
globals().update(_PUBLIC)

from . import cuda, distributed, fft, linalg, masked, metrics, random, signal, special  # noqa: E402
from ._device import device  # noqa: E402
from . import config  # noqa: E402
from ._devices import colocate_with, devices, get_default_device, set_default_device  # noqa: E402
from .amp import GradScaler, autocast, get_autocast_cpu_dtype, get_autocast_dtype, get_autocast_gpu_dtype, is_autocast_enabled  # noqa: E402
from ._graph import Session, Variable, cond, fori_loop, scan, while_loop  # noqa: E402
from ._export import Dim, export  # noqa: E402
from ._files import from_file, frombuffer, load, save  # noqa: E402
from ._import import from_jax, from_torch  # noqa: E402
from ._state import no_grad, enable_grad, inference_mode, set_grad_enabled, is_grad_enabled  # noqa: E402
from ._transforms import (  # noqa: E402
    checkpoint,
    compile,
    custom_gradient,
    grad,
    hessian,
    jacobian,
    jit,
    jvp,
    value_and_grad,
    vjp,
    vmap,
)
from . import amp, autograd, func, nn, optim, utils  # noqa: E402
from . import backends, debug, library, profiler, version  # noqa: E402
from ._callbacks import ShapeDtypeStruct, io_callback, pure_callback  # noqa: E402
from ._inspection import check_numerics, explain  # noqa: E402
from .backends import (  # noqa: E402
    are_deterministic_algorithms_enabled,
    get_float32_matmul_precision,
    get_num_threads,
    set_float32_matmul_precision,
    set_num_threads,
    use_deterministic_algorithms,
)
from .profiler import profile  # noqa: E402

inference_mode = autograd.inference_mode

from ._checked import sweep as _sweep  # noqa: E402
from ._differences import missing as _missing  # noqa: E402

# What is wrong with a call is said in our words, with the line of the program.
for _space in [_sys.modules[__name__], fft, linalg, metrics, random, nn, nn.functional, nn.init, optim, optim.lr_scheduler, utils.data, utils.checkpoint, amp, autograd, autograd.functional, func]:
    _sweep(_space)


# Imported when they are first used.
_LAZY = {"array_api", "compression", "data", "distributions", "llm", "onnx", "serve", "testing", "train"}


def __getattr__(name):
    """The in-place functions, such as ``tw.relu_(x)``, are methods. Of a name that is absent the error says what to
    write instead."""
    if name in _LAZY:
        return _import_module(f"{__name__}.{name}")
    if name == "compress":
        return _import_module(f"{__name__}.compression").compress
    if name.endswith("_") and not name.startswith("_") and hasattr(Tensor, name):
        return getattr(Tensor, name)
    raise _missing("", name)


def __dir__():
    return sorted({*globals(), *_LAZY, "compress"})
