"""Linear algebra, as the array API standard's extension of this name."""

from ._native import Tensor

cross = Tensor.cross
det = Tensor.det
diagonal = Tensor.diagonal
eigh = Tensor.eigh
eigvalsh = Tensor.eigvalsh
inv = Tensor.inv
lstsq = Tensor.lstsq
lu = Tensor.lu
matmul = Tensor.matmul
matrix_power = Tensor.matrix_power
outer = Tensor.outer
pinv = Tensor.pinv
qr = Tensor.qr
slogdet = Tensor.slogdet
solve = Tensor.solve
svd = Tensor.svd
svdvals = Tensor.svdvals
tensordot = Tensor.tensordot
trace = Tensor.trace
vecdot = Tensor.vecdot
vector_norm = Tensor.vector_norm


def cholesky(x, /, *, upper=False):
    """The triangular factor of a positive definite matrix."""
    return x.cholesky_upper() if upper else x.cholesky()


def matrix_norm(x, /, *, keepdims=False, ord="fro"):
    """A norm of the matrices in the last two axes."""
    return x.matrix_norm(ord, (-2, -1), keepdims=keepdims)


def matrix_transpose(x, /):
    """The last two axes exchanged."""
    return x.mT


def norm(x, ord=2.0, axis=None, keepdims=False):
    """The norm of vectors."""
    return x.vector_norm(ord, axis, keepdims=keepdims)


def matrix_rank(x, /, *, rtol=None):
    """How many singular values count."""
    s = x.svdvals()
    if rtol is None:
        rtol = max(x.shape[-2:]) * (2.0**-52 if x.dtype.name == "float64" else 2.0**-23)
    return (s > s.amax(-1, keepdims=True) * rtol).astype("int64").sum(-1)
