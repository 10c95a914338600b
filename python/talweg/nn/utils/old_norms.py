"""PyTorch's older ``weight_norm`` and ``spectral_norm``, whose parameters have other names in files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._checked import check, value_error
from ..parameter import Parameter
from .parametrizations import _SpectralNorm, norm_except_dim

if TYPE_CHECKING:
    from ...nn.module import Module

__all__ = ["remove_spectral_norm", "remove_weight_norm", "spectral_norm", "weight_norm"]


def _split(module, name):
    weight = module._parameters.get(name)
    if weight is None:
        raise value_error(f"{type(module).__name__} has no parameter {name!r}")
    del module._parameters[name]
    return weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """The weight as a length ``weight_g`` and a direction ``weight_v``; newer programs use
    ``nn.utils.parametrizations.weight_norm``.

    >>> list(tw.nn.utils.weight_norm(tw.nn.Linear(2, 3)).state_dict())
    ['bias', 'weight_g', 'weight_v']
    """
    weight = _split(module, name)
    module.register_parameter(name + "_g", Parameter(norm_except_dim(weight, 2, dim).detach()))
    module.register_parameter(name + "_v", Parameter(weight.detach()))

    def compute(module, _args):
        g, v = getattr(module, name + "_g"), getattr(module, name + "_v")
        module.__dict__[name] = v * (g / norm_except_dim(v, 2, dim))

    _keep(module, "_weight_norms", name, module.register_forward_pre_hook(compute), compute)
    return module


def _keep(module, kind, name, handle, compute):
    module.__dict__.setdefault(kind, {})[name] = handle
    compute(module, ())


def _removed(module, kind, name):
    handle = module.__dict__.get(kind, {}).pop(name, None)
    if handle is None:
        raise value_error(f"{type(module).__name__}.{name} has no such norm")
    handle.remove()
    return module.__dict__.pop(name).detach()


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """The weight is an ordinary parameter again.

    >>> list(tw.nn.utils.remove_weight_norm(tw.nn.utils.weight_norm(tw.nn.Linear(2, 3))).state_dict())
    ['bias', 'weight']
    """
    value = _removed(module, "_weight_norms", name)
    delattr(module, name + "_g")
    delattr(module, name + "_v")
    module.register_parameter(name, Parameter(value))
    return module


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None,
) -> Module:
    """The weight divided by its largest singular value; newer programs use ``nn.utils.parametrizations.spectral_norm``.

    >>> sorted(tw.nn.utils.spectral_norm(tw.nn.Linear(2, 3)).state_dict())
    ['bias', 'weight_orig', 'weight_u', 'weight_v']
    """
    if dim is None:
        dim = 1 if "ConvTranspose" in type(module).__name__ else 0
    weight = _split(module, name)
    norm = _SpectralNorm(weight, n_power_iterations, dim, eps, is_old=True)
    module.register_parameter(name + "_orig", weight)
    module.register_buffer(name + "_u", norm._u)
    module.register_buffer(name + "_v", norm._v)

    def compute(module, _args):
        norm.training = module.training
        norm._buffers["_u"], norm._buffers["_v"] = module._buffers[name + "_u"], module._buffers[name + "_v"]
        module.__dict__[name] = norm(getattr(module, name + "_orig"))

    _keep(module, "_spectral_norms", name, module.register_forward_pre_hook(compute), compute)
    return module


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """The weight is an ordinary parameter again.

    >>> list(tw.nn.utils.remove_spectral_norm(tw.nn.utils.spectral_norm(tw.nn.Linear(2, 3))).state_dict())
    ['bias', 'weight']
    """
    value = _removed(module, "_spectral_norms", name)
    for end in ("_orig", "_u", "_v"):
        delattr(module, name + end)
    module.register_parameter(name, Parameter(value))
    return module


check(globals(), __all__)
