"""The Python array API standard, version 2025.12: its functions with its signatures and its meaning.

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
from ._array import Array as _Array, of_standard as _of_standard
from ._creation import *
from ._dtypes import *
from ._dtypes import NAMES as _NAMES, __array_namespace_info__ as __array_namespace_info__
from ._elementwise import *
from ._elementwise import FUNCTIONS as _FUNCTIONS
from ._manipulation import *
from ._statistics import *
from . import fft as fft, linalg as linalg

__array_api_version__ = "2025.12"
e, inf, nan, newaxis, pi = _math.e, _math.inf, _math.nan, None, _math.pi

_here = globals()
for _name, _f in list(_here.items()):
    if not _name.startswith("_") and _inspect.isfunction(_f):
        _here[_name] = _of_standard(_checked.wrapped(_f))
_here.update({_name: _of_standard(_f) for _name, _f in _FUNCTIONS.items()})
for _space in (fft, linalg):
    for _name in _space.__all__:
        if _inspect.isfunction(_f := getattr(_space, _name)):
            setattr(_space, _name, _of_standard(_f))


def _floordiv(self, other):
    return _here["floor_divide"](self, other)


def _rfloordiv(self, other):
    return _here["floor_divide"](other, self)


def _ifloordiv(self, other):
    return self.copy_(_here["floor_divide"](self, other))


_Array.__floordiv__, _Array.__rfloordiv__, _Array.__ifloordiv__ = _floordiv, _rfloordiv, _ifloordiv
_here.update({_name: _dtype(_name) for _name in _NAMES})
