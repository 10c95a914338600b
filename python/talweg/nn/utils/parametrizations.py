"""Weights with a weight norm or a spectral norm."""

from __future__ import annotations

from ... import _native, _ops
from ..._checked import check, value_error
from ..._native import Tensor
from ..._state import no_grad
from ..module import Module
from .parametrize import register_parametrization

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


def norm_except_dim(v, pow=2, dim=0):
    """The norm over all dimensions but one; of the whole for ``dim=-1``."""
    if dim == -1 or dim is None:
        return v.vector_norm(float(pow))
    axes = tuple(i for i in range(v.ndim) if i != dim % v.ndim)
    return v.vector_norm(float(pow), axes, True)


class _WeightNorm(Module):
    def __init__(self, dim=0):
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g, weight_v):
        return weight_v * (weight_g / norm_except_dim(weight_v, 2, self.dim))

    def right_inverse(self, weight):
        return norm_except_dim(weight, 2, self.dim).detach(), weight.detach()


class _SpectralNorm(Module):
    def __init__(self, weight, n_power_iterations=1, dim=0, eps=1e-12, is_old=False):
        super().__init__()
        if n_power_iterations < 1:
            raise value_error(f"spectral_norm: n_power_iterations is at least 1, not {n_power_iterations}")
        self.dim, self.eps, self.n_power_iterations = dim % max(weight.ndim, 1), eps, n_power_iterations
        self._is_old = is_old  # which begins with v, and with vectors as they were drawn
        if weight.ndim > 1:
            rows, columns = self._matrix(weight).shape
            self.register_buffer("_u", _native.randn(rows).normalize(2.0, 0, eps))
            self.register_buffer("_v", _native.randn(columns).normalize(2.0, 0, eps))
            self._iterate(self._matrix(weight.detach()), 0 if is_old else 15)

    def _matrix(self, weight):
        return weight.moveaxis(self.dim, 0).flatten(1)

    def _iterate(self, matrix, times):
        with no_grad():
            u, v = self._u.detach(), self._v.detach()
            to_u = lambda v: matrix.matmul(v.unsqueeze(1)).squeeze(1).normalize(2.0, 0, self.eps)  # noqa: E731
            to_v = lambda u: matrix.transpose(0, 1).matmul(u.unsqueeze(1)).squeeze(1).normalize(2.0, 0, self.eps)  # noqa: E731
            for _ in range(times):
                if self._is_old:
                    v = to_v(u)
                    u = to_u(v)
                else:
                    u = to_u(v)
                    v = to_v(u)
            self._u.copy_(u)
            self._v.copy_(v)

    def forward(self, weight):
        if weight.ndim == 1:
            return weight.normalize(2.0, 0, self.eps)
        matrix = self._matrix(weight)
        if self.training:
            self._iterate(matrix.detach(), self.n_power_iterations)
        u, v = self._u.detach(), self._v.detach()
        sigma = (u * matrix.matmul(v.unsqueeze(1)).squeeze(1)).sum()
        return weight / sigma

    def right_inverse(self, value):
        return value


class _Orthogonal(Module):
    def forward(self, weight):
        tall = weight if weight.shape[-2] >= weight.shape[-1] else weight.transpose(-1, -2)
        q, r = _ops.qr(tall)
        q = q * r.diagonal(0, -2, -1).sign().unsqueeze(-2)
        return q if weight.shape[-2] >= weight.shape[-1] else q.transpose(-1, -2)


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """The weight as a length and a direction: ``g v / |v|`` for each index of ``dim``.

    >>> layer = tw.nn.utils.parametrizations.weight_norm(tw.nn.Linear(2, 3))
    >>> list(layer.state_dict())
    ['bias', 'parametrizations.weight.original0', 'parametrizations.weight.original1']
    """
    return register_parametrization(module, name, _WeightNorm(dim), unsafe=True)


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None,
) -> Module:
    """The weight divided by its largest singular value, which is estimated by power iteration in training.

    >>> layer = tw.nn.utils.parametrizations.spectral_norm(tw.nn.Linear(4, 4))
    >>> round(tw.linalg.svdvals(layer.eval().weight.detach()).amax().item(), 1)
    1.0
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise value_error(f"spectral_norm: {type(module).__name__} has no parameter {name!r}")
    if dim is None:
        dim = 1 if "ConvTranspose" in type(module).__name__ else 0
    return register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))


def orthogonal(
    module: Module, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True,
) -> Module:
    """The weight with orthogonal rows or columns, by a QR decomposition.

    >>> w = tw.nn.utils.parametrizations.orthogonal(tw.nn.Linear(3, 3)).weight
    >>> bool(tw.allclose(w @ w.T, tw.eye(3), atol=1e-5))
    True
    """
    if orthogonal_map not in (None, "householder"):
        raise value_error(f"orthogonal: only the map by Householder's QR is there, not {orthogonal_map!r}")
    return register_parametrization(module, name, _Orthogonal())


check(globals(), __all__)
