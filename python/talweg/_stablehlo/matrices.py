"""Rows of matrices: StableHLO's own, and the calls of LAPACK that JAX makes on a CPU."""

# mypy: ignore-errors
import talweg as tw
from .._checked import value_error
from .table import ROWS, dtype_of, is_complex, row


def _adjoint(a):
    a = a.transpose(-2, -1)
    return tw.conj(a) if is_complex(a.dtype) else a


@row()
def cholesky(node, a):
    return tw.linalg.cholesky(a) if node.attrs.get("lower", True) else tw.linalg.cholesky(a, upper=True)


@row()
def triangular_solve(node, a, b):
    t = node.attrs
    return _solved(a, b, t["left_side"], t["lower"], t["unit_diagonal"], t["transpose_a"])


def _solved(a, b, left, lower, unit, transposed):
    """X with op(A) X = B, or with X op(A) = B."""
    if transposed != "NO_TRANSPOSE":
        a = _adjoint(a) if transposed == "ADJOINT" else a.transpose(-2, -1)
        lower = not lower
    if not left:
        return _solved(a.transpose(-2, -1), b.transpose(-2, -1), True, not lower, unit, "NO_TRANSPOSE").transpose(-2, -1)
    return tw.linalg.solve_triangular(a, b, upper=not lower, unitriangular=unit)


def _done(node, i):
    """The result that says that all went well."""
    return tw.zeros(node.types[i].shape, dtype=dtype_of(node.types[i].dtype))


def _settings(node):
    """The arguments of a call that are letters."""
    config = node.attrs.get("mhlo.backend_config", {})
    return {k: chr(v) if isinstance(v, int) else v for k, v in config.items()}


def _potrf(node, a):
    lower = _settings(node)["uplo"] == "L"
    return tw.linalg.cholesky(a if lower else _adjoint(a)) if lower else _adjoint(tw.linalg.cholesky(_adjoint(a))), _done(node, 1)


def _trsm(node, a, b):
    s = _settings(node)
    transposed = {"N": "NO_TRANSPOSE", "T": "TRANSPOSE", "C": "ADJOINT"}[s["trans_x"]]
    return _solved(a, b, s["side"] == "L", s["uplo"] == "L", s["diag"] == "U", transposed)


def _getrf(node, a):
    lu, pivots = tw.linalg.lu_factor(a)
    return lu, pivots.to(tw.int32), _done(node, 2)


def _geqrf(node, a):
    return tw.geqrf(a)


def _orgqr(node, a, tau):
    return tw.linalg.householder_product(a, tau)


def _syevd(node, a):
    s = _settings(node)
    if s["mode"] == "N":
        return a, tw.linalg.eigvalsh(a, UPLO=s["uplo"]), _done(node, 2)
    values, vectors = tw.linalg.eigh(a, UPLO=s["uplo"])
    return vectors, values, _done(node, 2)


def _gesdd(node, a):
    mode = _settings(node)["mode"]
    if mode == "N":
        return a, tw.linalg.svdvals(a), *(_done(node, i) for i in (2, 3, 4))
    u, s, vh = tw.linalg.svd(a, full_matrices=mode == "A")
    return a, s, u, vh, _done(node, 4)


for _letter in "sdcz":
    _symmetric, _orthogonal = ("syevd", "orgqr") if _letter in "sd" else ("heevd", "ungqr")
    for _name, _f in (
        ("potrf", _potrf), ("trsm", _trsm), ("getrf", _getrf), ("geqrf", _geqrf), (_orthogonal, _orgqr),
        (_symmetric, _syevd), ("gesdd", _gesdd),
    ):  # fmt: skip
        ROWS[f"custom_call lapack_{_letter}{_name}_ffi"] = _f


@row("custom_call Sharding", "sdy.sharding_constraint")
def sharding(node, x):
    return x


@row("custom_call shape_assertion", known=True)
def shape_assertion(node, holds, *sizes):
    if not holds.all():
        said = node.attrs.get("error_message", "").format(*(int(n) for n in sizes))
        raise value_error(said.partition(" Please see ")[0])
    return ()
