"""PyTorch's functions: those of the package and the methods of ``Tensor``, a file a family.

A function is registered once (`register.public`), under PyTorch's name, with PyTorch's arguments and results. Rows of
the op table whose name, arguments and result are PyTorch's already need no entry here. The array API standard's
meaning of the same names is in `talweg.array_api`.
"""

from .arithmetic import *
from .attributes import *
from .comparison import *
from .conversion import *
from .creation import *
from .dtypes import *
from .elementwise import *
from .factors import *
from .gammas import *
from .indexing import *
from .layout import *
from .network import *
from .normalizations import *
from .products import *
from .random import *
from .reductions import *
from .shapes import *
from .sorting import *
from .spectral import *
from .statistics import *
from .views import *

from . import inplace  # isort: skip
from .register import PUBLIC as PUBLIC

inplace.install()
