"""PyTorch's wrappers for several devices and processes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from .. import _native, distributed
from .._checked import value_error
from .._graph import has_grad
from .._native import Tensor
from .._state import no_grad
from .layers.adaptive import DataParallel
from .module import Module

__all__ = ["DataParallel", "DistributedDataParallel"]


class DistributedDataParallel(Module):
    """Calls its module, and averages gradients over all processes when ``backward`` ends.

    All processes begin with the parameters and buffers of the first, and take its buffers before each call unless
    ``broadcast_buffers`` is false. In ``no_sync()`` gradients collect in each process; the first ``backward`` after it
    averages their sums. ``find_unused_parameters`` is for modules whose parameters get gradients on some ranks alone.
    ``device_ids`` and PyTorch's other settings of the exchange change nothing. With a parameter store, servers average.

    >>> model = tw.nn.parallel.DistributedDataParallel(tw.nn.Linear(2, 1))
    >>> model(tw.ones(3, 2)).shape, sorted(model.state_dict())
    (talweg.Size([3, 1]), ['module.bias', 'module.weight'])
    """

    def __init__(
        self,
        module: Module,
        device_ids: Any = None,
        output_device: Any = None,
        dim: int = 0,
        broadcast_buffers: bool = True,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False,
        check_reduction: bool = False,
        gradient_as_bucket_view: bool = False,
        static_graph: bool = False,
        **settings: Any,
    ) -> None:
        super().__init__()
        if device_ids is not None and len(device_ids) > 1:
            raise value_error(f"DistributedDataParallel: a process has one device, not the {len(device_ids)} of device_ids")
        self.module = module
        self.process_group = process_group
        self.broadcast_buffers, self.find_unused_parameters = broadcast_buffers, find_unused_parameters
        self.require_backward_grad_sync = True
        # Of a process alone, and where servers take the steps, there is nothing to average.
        self._is_shared = distributed.get_world_size(process_group) > 1 and not _native.worker_has_store()
        if not self._is_shared:
            return
        if not distributed.is_initialized():
            distributed.init_process_group()
        trained = [p for p in module.parameters() if p.requires_grad]
        if not trained:
            raise value_error("DistributedDataParallel: no parameter of the module requires gradients: it needs no wrapper")
        if init_sync:
            self._take([*module.parameters(), *module.buffers()])
        for p in trained:
            p.register_post_accumulate_grad_hook(self._collected)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        if self._is_shared and self.broadcast_buffers and self.require_backward_grad_sync:
            self._take(list(self.module.buffers()))
        return self.module(*inputs, **kwargs)

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """A scope in which gradients accumulate without communication."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    @contextlib.contextmanager
    def join(self, divide_by_initial_world_size: bool = True, enable: bool = True, throw_on_early_termination: bool = False) -> Iterator[None]:
        """PyTorch's scope for unequal numbers of batches, which raises here where processes have unequal numbers."""
        yield

    def _take(self, tensors: list[Tensor]) -> None:
        """Broadcasts tensors from the first process, with one broadcast per dtype."""
        by_type: dict[Any, list[Tensor]] = {}
        for t in tensors:
            by_type.setdefault(t.dtype, []).append(t)
        with no_grad():
            for same in by_type.values():
                flat = Tensor.concat([t.detach().reshape(-1) for t in same])
                distributed.broadcast(flat, group=self.process_group, group_src=0)
                for t, part in zip(same, flat.split([t.numel() for t in same])):
                    t.copy_(part.reshape(t.shape))

    def _collected(self, parameter: Tensor) -> None:
        """Notes a gradient: all are averaged when the backward pass has ended."""
        if self.require_backward_grad_sync:
            _native.autograd_queue(self._average)

    def _average(self) -> None:
        trained = [p for p in self.module.parameters() if p.requires_grad]
        group = self.process_group
        with no_grad():
            if self.find_unused_parameters:
                has = distributed.functional.all_reduce(_native.tensor([int(has_grad(p)) for p in trained]), "max", group)
                for p, is_used in zip(trained, has.tolist()):
                    if is_used and not has_grad(p):
                        p.grad = p.detach().zeros_like()
            trained = [p for p in trained if has_grad(p)]
            single = [p for p in trained if p.dtype.name == "float32"] if group is None else []
            if single:
                _native.average_gradients(single)
            for p in trained:
                if group is not None or p.dtype.name != "float32":
                    distributed.all_reduce(p.grad, distributed.ReduceOp.AVG, group)
