"""PyTorch's functions: those of the package and the methods of ``Tensor``, a file a family."""

from . import arithmetic, factors, indexing, layout, products, spectral, views
from .register import PUBLIC
