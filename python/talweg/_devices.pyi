"""Which device computes, and in how many bits."""

# Generated from the package: TALWEG_BLESS=1 pytest python/tests/test_stubs.py writes it.
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import IO, Any, NamedTuple, Self

from . import Tensor
from . import dtype
from . import DTypeLike
from . import Update
from .nn import Module
from .train import Callback
from .train import History
from .train import Silent
from .train import Trainer
from .utils.data import Subset

class GradScaler:
    """Multiplies the loss so that small gradients survive ``float16``, and divides the gradients.

    A step whose gradients are not all finite is left out and halves the factor; ``growth_interval`` good steps in a row
    double it.

    >>> import talweg as tw
    >>> w = tw.tensor([3.0], requires_grad=True)
    >>> optimizer, scaler = tw.optim.SGD([w], lr=0.1), tw.GradScaler()
    >>> scaler.scale((w * w).sum()).backward()
    >>> scaler.step(optimizer)
    >>> round(w.item(), 4)
    2.4"""
    def __init__(self, init_scale: float = 65536.0, growth_interval: int = 2000) -> None: ...
    def get_scale(self) -> float:
        """The factor now."""
    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes over what ``state_dict`` gave."""
    def scale(self, loss: Tensor) -> Tensor:
        """The loss to differentiate."""
    def state_dict(self) -> dict[str, Tensor]:
        """What a checkpoint needs, by name."""
    def step(self, optimizer: Any) -> None:
        """One step with the collected gradients, which are then forgotten."""
    def update(self) -> None:
        """The factor changes with each step by itself: this is here for loops written for PyTorch."""

def autocast(dtype: str = 'bfloat16', enabled: bool = True) -> Any:
    """A scope or decorator in which products, convolutions and attention run in ``bfloat16`` or ``float16``.

    With ``"float8"`` (``float8_e4m3fn``) linear layers whose sizes are multiples of 16 multiply in 8-bit floats, their
    gradients in ``float8_e5m2``, each tensor scaled by its greatest magnitude; the rest runs in ``bfloat16``.

    Losses, softmax and sums of exponentials stay in ``float32``, and so do parameters. ``float16`` needs a
    ``GradScaler``, or small gradients vanish.

    >>> import talweg as tw
    >>> with tw.autocast():
    ...     y = tw.ones(2, 3) @ tw.ones(3, 2)
    >>> y.dtype
    talweg.bfloat16
    >>> layer = tw.nn.Linear(32, 48)
    >>> with tw.autocast("float8"):
    ...     y = layer(tw.ones(16, 32))
    >>> y.dtype, layer.weight.dtype
    (talweg.bfloat16, talweg.float32)"""
def devices() -> list[str]:
    """The names of this machine's devices.

    >>> import talweg as tw
    >>> tw.devices()[0]
    'cpu'"""
def get_default_device() -> str:
    """The device that computes what is on the host alone.

    >>> import talweg as tw
    >>> tw.get_default_device()
    device(type='cpu')"""
def named(where: Any) -> Tensor:
    """The name that the engine knows a device by, of a device, a string or the number of a GPU."""
def set_default_device(device: str | None) -> None:
    """Makes tensors of this thread on a device from now on; ``None``: on that of ``TALWEG_DEVICE``, or the host.

    >>> import talweg as tw
    >>> tw.set_default_device("cpu")
    >>> tw.set_default_device(None)"""
