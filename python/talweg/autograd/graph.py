"""What the gradient of a tensor flows through. Of PyTorch's module of the same name ``Node`` is here."""

from .. import _native
from .._native import GradFn as Node
from ..errors import GradientError

__all__ = ["Node"]

_ABSENT = {
    "saved_tensors_hooks": "values are kept or computed again as the compiler decides; use tw.utils.checkpoint to keep less",
    "save_on_cpu": "values are kept or computed again as the compiler decides; use tw.utils.checkpoint to keep less",
    "disable_saved_tensors_hooks": "there are no such hooks to disable",
    "register_multi_grad_hook": "use Tensor.register_hook of each tensor",
    "allow_mutation_on_saved_tensors": "values never change: it is always allowed",
    "GradientEdge": "pass the tensor itself to autograd.grad",
    "get_gradient_edge": "pass the tensor itself to autograd.grad",
    "increment_version": "values never change: there are no versions",
}


def __getattr__(name):
    if name in _ABSENT:
        raise GradientError(_native.located(f"autograd.graph.{name} does not exist: {_ABSENT[name]}"))
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
