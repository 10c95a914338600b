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
    """The triangular factor of a positive definite matrix.

    >>> import talweg as tw
    >>> tw.linalg.cholesky(tw.tensor([[4.0, 0.0], [0.0, 9.0]])).tolist()
    [[2.0, 0.0], [0.0, 3.0]]
    """
    return x.cholesky_upper() if upper else x.cholesky()


def matrix_norm(x, /, *, keepdims=False, ord="fro"):
    """A norm of the matrices in the last two axes.

    >>> import talweg as tw
    >>> tw.linalg.matrix_norm(tw.tensor([[3.0, 0.0], [0.0, 4.0]])).item()
    5.0
    """
    return x.matrix_norm(ord, (-2, -1), keepdims=keepdims)


def matrix_transpose(x, /):
    """The last two axes exchanged.

    >>> import talweg as tw
    >>> tw.linalg.matrix_transpose(tw.zeros(2, 3)).shape
    (3, 2)
    """
    return x.mT


def norm(x, ord=2.0, axis=None, keepdims=False):
    """The norm of vectors.

    >>> import talweg as tw
    >>> tw.linalg.norm(tw.tensor([3.0, 4.0])).item()
    5.0
    """
    return x.vector_norm(ord, axis, keepdims=keepdims)


def matrix_rank(x, /, *, rtol=None):
    """How many singular values count.

    >>> import talweg as tw
    >>> tw.linalg.matrix_rank(tw.tensor([[1.0, 2.0], [2.0, 4.0]])).item()
    1
    """
    s = x.svdvals()
    if rtol is None:
        rtol = max(x.shape[-2:]) * (2.0**-52 if x.dtype.name in ("float64", "complex128") else 2.0**-23)
    return (s > s.amax(-1, keepdims=True) * rtol).astype("int64").sum(-1)
