"""PyTorch's wrappers for several devices: modules that call their module, since optimizers average gradients over the
workers that ``talweg launch`` starts."""

from __future__ import annotations

from typing import Any

from .layers.adaptive import DataParallel
from .module import Module

__all__ = ["DataParallel", "DistributedDataParallel"]


class DistributedDataParallel(Module):
    """Calls its module. Under ``talweg launch`` the step of an optimizer averages the gradients over workers, with or
    without this wrapper; ``device_ids`` and PyTorch's settings of the exchange change nothing.

    >>> import talweg as tw
    >>> model = tw.nn.parallel.DistributedDataParallel(tw.nn.Linear(2, 1))
    >>> model(tw.ones(3, 2)).shape, sorted(model.state_dict())
    ((3, 1), ['module.bias', 'module.weight'])
    """

    def __init__(self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0, **settings: Any) -> None:
        super().__init__()
        self.module = module

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        return self.module(*inputs, **kwargs)
