"""The Python array API standard, version 2024.12: its functions with its signatures and its meaning.

``x.__array_namespace__()`` returns this module. The package itself, ``talweg``, follows PyTorch, which contradicts the
standard on some names (docs/names.md).

>>> import talweg.array_api as xp
>>> xp.std(xp.asarray([1.0, 3.0]))
tensor(1.)
"""

import inspect as _inspect
import math as _math

from .. import _checked
from .._native import dtype as _dtype
from ._creation import *
from ._dtypes import *
from ._dtypes import NAMES as _NAMES, __array_namespace_info__ as __array_namespace_info__
from ._elementwise import *
from ._elementwise import FUNCTIONS as _FUNCTIONS
from ._manipulation import *
from ._statistics import *
from . import fft as fft, linalg as linalg

__array_api_version__ = "2024.12"
e, inf, nan, newaxis, pi = _math.e, _math.inf, _math.nan, None, _math.pi

_here = globals()
for _name, _f in list(_here.items()):
    if not _name.startswith("_") and _inspect.isfunction(_f):
        _here[_name] = _checked.wrapped(_f)
_here.update(_FUNCTIONS)
_here.update({_name: _dtype(_name) for _name in _NAMES})
