"""Pruning: parameters multiplied by masks of zeros and ones, chosen by magnitude, at random or by a custom rule.

>>> from talweg.nn.utils import prune
>>> layer = prune.l1_unstructured(tw.nn.Linear(4, 2), "weight", amount=0.5)
>>> int((layer.weight == 0).sum()), sorted(layer.state_dict())
(4, ['bias', 'weight_mask', 'weight_orig'])
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ... import _native
from ..._checked import check, type_error, value_error
from ..._native import Tensor
from ..module import Module
from ..parameter import Parameter

__all__ = [
    "BasePruningMethod", "CustomFromMask", "Identity", "L1Unstructured", "LnStructured", "RandomStructured",
    "RandomUnstructured", "custom_from_mask", "global_unstructured", "identity", "is_pruned", "l1_unstructured",
    "ln_structured", "random_structured", "random_unstructured", "remove",
]  # fmt: skip


def _count(amount: float, size: int) -> int:
    """How many of so many entries an amount is: a number of them, or a share."""
    if isinstance(amount, bool) or not isinstance(amount, (int, float)):
        raise type_error(f"prune: amount is a number of entries or a share, not {type(amount).__name__}")
    if amount < 0 or (isinstance(amount, float) and amount > 1) or amount > max(size, 1):
        raise value_error(f"prune: amount is a share from 0.0 to 1.0 or a number up to {size}, not {amount}")
    return amount if isinstance(amount, int) else round(amount * size)


def _draw(shape: tuple[int, ...]) -> Any:
    return np.asarray(_native.rand(*shape))


class BasePruningMethod:
    """The base of pruning methods. A subclass says in ``compute_mask(t, default_mask)`` which entries stay (1), and in
    ``PRUNING_TYPE`` what it looks at: ``"unstructured"`` (entries that are left), ``"structured"`` (slices that are
    left along ``dim``) or ``"global"`` (everything)."""

    PRUNING_TYPE = "unstructured"
    dim = -1

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask of the entries that stay."""
        raise NotImplementedError(f"{type(self).__name__} has no compute_mask")

    def prune(self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None) -> Tensor:
        """A tensor with zeros where its mask says so."""
        scores = t if importance_scores is None else importance_scores
        before = _native.ones_like(t) if default_mask is None else default_mask
        return t * self._combined(scores.detach(), before)

    def _combined(self, scores: Tensor, before: Tensor) -> Tensor:
        """The mask before, and this method's among what that leaves."""
        old, values = np.asarray(before), np.asarray(scores)
        mask = old.copy()
        if self.PRUNING_TYPE == "unstructured":
            left = old == 1
            seen = self.compute_mask(_native.tensor(values[left]), _native.tensor(old[left]))
            mask[left] = np.asarray(seen)
        elif self.PRUNING_TYPE == "structured":
            moved, left = np.moveaxis(mask, self.dim, 0), np.moveaxis(old, self.dim, 0).any(axis=tuple(range(1, old.ndim)))
            part = np.compress(left, values, axis=self.dim)
            seen = self.compute_mask(_native.tensor(part), _native.tensor(np.compress(left, old, axis=self.dim)))
            moved[left] = np.moveaxis(np.asarray(seen), self.dim, 0)
        else:
            mask = np.asarray(self.compute_mask(scores, before))
        return _native.tensor(mask.astype(old.dtype))

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any
    ) -> BasePruningMethod:
        """Prunes a parameter of a module: ``name_orig`` is trained, ``name_mask`` a buffer, ``name`` their product."""
        method = cls(*args, **kwargs)
        if name in module._parameters and name + "_orig" not in module._parameters:
            original = module._parameters.pop(name)
            module.register_parameter(name + "_orig", original)
            module.register_buffer(name + "_mask", _native.ones_like(original.detach()))
            handle = module.register_forward_pre_hook(lambda module, args: _compute(module, name))
            module.__dict__.setdefault("_pruned", {})[name] = handle
        elif name + "_orig" not in module._parameters:
            raise value_error(f"prune: {type(module).__name__} has no parameter {name!r}")
        scores = module._parameters[name + "_orig"] if importance_scores is None else importance_scores
        mask = method._combined(scores.detach(), module._buffers[name + "_mask"])
        module.register_buffer(name + "_mask", mask)
        _compute(module, name)
        return method


def _compute(module: Module, name: str) -> None:
    module.__dict__[name] = module._parameters[name + "_orig"] * module._buffers[name + "_mask"]


class Identity(BasePruningMethod):
    """Prunes nothing, but makes the mask."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask


class CustomFromMask(BasePruningMethod):
    """A mask that is given."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask * self.mask.astype(default_mask.dtype)


class _Least(BasePruningMethod):
    """Prunes the entries with the least scores."""

    def __init__(self, amount: float) -> None:
        self.amount = amount

    def scores(self, t: Tensor) -> Any:
        raise NotImplementedError

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        scores, mask = self.scores(t), np.array(default_mask)
        least = np.argsort(scores.ravel(), kind="stable")[: _count(self.amount, scores.size)]
        if self.PRUNING_TYPE == "structured":
            np.moveaxis(mask, self.dim, 0)[least] = 0
        else:
            mask.ravel()[least] = 0
        return _native.tensor(mask)


class L1Unstructured(_Least):
    """Prunes the entries of least magnitude."""

    def scores(self, t: Tensor) -> Any:
        return np.abs(np.asarray(t))


class RandomUnstructured(_Least):
    """Prunes entries at random."""

    def scores(self, t: Tensor) -> Any:
        return _draw(tuple(t.shape))


class LnStructured(_Least):
    """Prunes the slices along ``dim`` with the least norm of order ``n``."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, n: float, dim: int = -1) -> None:
        super().__init__(amount)
        self.n, self.dim = n, dim

    def scores(self, t: Tensor) -> Any:
        rows = np.moveaxis(np.asarray(t), self.dim, 0)
        return np.linalg.norm(rows.reshape(rows.shape[0], -1), ord=float(self.n), axis=1)


class RandomStructured(_Least):
    """Prunes slices along ``dim`` at random."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: float, dim: int = -1) -> None:
        super().__init__(amount)
        self.dim = dim

    def scores(self, t: Tensor) -> Any:
        return _draw((t.shape[self.dim],))


def identity(module: Module, name: str) -> Module:
    """Makes a mask of ones.

    >>> tw.nn.utils.prune.identity(tw.nn.Linear(2, 1), "weight").weight_mask.tolist()
    [[1.0, 1.0]]
    """
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: float) -> Module:
    """Prunes an amount of entries at random.

    >>> int(tw.nn.utils.prune.random_unstructured(tw.nn.Linear(4, 2), "weight", 3).weight_mask.sum())
    5
    """
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Module, name: str, amount: float, importance_scores: Tensor | None = None) -> Module:
    """Prunes the entries of least magnitude, or of least ``importance_scores``.

    >>> int(tw.nn.utils.prune.l1_unstructured(tw.nn.Linear(4, 2), "weight", 0.25).weight_mask.sum())
    6
    """
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: float, dim: int) -> Module:
    """Prunes slices along ``dim`` at random.

    >>> tw.nn.utils.prune.random_structured(tw.nn.Linear(3, 4), "weight", 1, dim=0).weight_mask.sum().item()
    9.0
    """
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Module, name: str, amount: float, n: float, dim: int, importance_scores: Tensor | None = None,
) -> Module:
    """Prunes the slices along ``dim`` with the least norm of order ``n``.

    >>> tw.nn.utils.prune.ln_structured(tw.nn.Linear(3, 4), "weight", 2, n=2, dim=0).weight_mask.sum().item()
    6.0
    """
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Prunes by a mask.

    >>> tw.nn.utils.prune.custom_from_mask(tw.nn.Linear(2, 1), "bias", tw.tensor([0.0])).bias.item()
    0.0
    """
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]], pruning_method: type, importance_scores: Any = None, **kwargs: Any
) -> None:
    """Prunes an amount of the entries of several parameters together.

    >>> from talweg.nn.utils import prune
    >>> a, b = tw.nn.Linear(4, 2), tw.nn.Linear(2, 4)
    >>> prune.global_unstructured([(a, "weight"), (b, "weight")], pruning_method=prune.L1Unstructured, amount=0.5)
    >>> int(a.weight_mask.sum() + b.weight_mask.sum())
    8
    """
    listed, given = list(parameters), importance_scores or {}
    method = pruning_method(**kwargs)
    if method.PRUNING_TYPE != "unstructured":
        raise value_error("global_unstructured: give a method with PRUNING_TYPE 'unstructured', such as L1Unstructured")
    scores = [np.asarray(given.get((m, n), getattr(m, n)).detach()) for m, n in listed]
    before = [np.asarray(m._buffers[n + "_mask"]) if n + "_mask" in m._buffers else np.ones_like(s) for (m, n), s in zip(listed, scores)]
    flat = [np.concatenate([p.ravel() for p in parts]) for parts in (scores, before)]
    mask = np.asarray(method._combined(_native.tensor(flat[0]), _native.tensor(flat[1])))
    at = 0
    for (module, name), s in zip(listed, scores):
        custom_from_mask(module, name, _native.tensor(mask[at : at + s.size].reshape(s.shape)))
        at += s.size


def remove(module: Module, name: str) -> Module:
    """Makes pruning permanent: the product is the parameter again.

    >>> from talweg.nn.utils import prune
    >>> list(prune.remove(prune.l1_unstructured(tw.nn.Linear(2, 1), "weight", 1), "weight").state_dict())
    ['bias', 'weight']
    """
    handle = module.__dict__.get("_pruned", {}).pop(name, None)
    if handle is None:
        raise value_error(f"remove: {name!r} of {type(module).__name__} is not pruned: call a function of prune first")
    handle.remove()
    original = module._parameters.pop(name + "_orig")
    mask = module._buffers.pop(name + "_mask")
    module.__dict__.pop(name, None)
    module.register_parameter(name, Parameter((original * mask).detach(), original.requires_grad))
    return module


def is_pruned(module: Module) -> bool:
    """True if a parameter of the module, or of one below it, is pruned.

    >>> tw.nn.utils.prune.is_pruned(tw.nn.Linear(2, 1))
    False
    """
    return any(m.__dict__.get("_pruned") for m in module.modules())


check(globals(), __all__)
