"""Which device computes, and in how many bits."""

import functools

from . import _native
from ._checked import value_error
from ._device import device as _device, named


class _Scope:
    """A scope, and a decorator, in which something is set for this thread."""

    def __init__(self, set_, value):
        self._set, self._value, self._before = set_, value, []

    def __enter__(self):
        self._before.append(self._set(self._value))
        return self

    def __exit__(self, *_exception):
        self._set(self._before.pop())

    def __call__(self, f):
        @functools.wraps(f)
        def inside(*args, **kwargs):
            with _Scope(self._set, self._value):
                return f(*args, **kwargs)

        return inside


def set_default_device(device):
    """Makes tensors of this thread on a device from now on; ``None``: on that of ``TALWEG_DEVICE``, or the host.

    >>> import talweg as tw
    >>> tw.set_default_device("cpu")
    >>> tw.set_default_device(None)
    """
    _native.set_device(named(device))


def get_default_device():
    """The device that computes what is on the host alone.

    >>> import talweg as tw
    >>> tw.get_default_device()
    device(type='cpu')
    """
    return _device(_native.current_device())


def devices():
    """The names of this machine's devices.

    >>> import talweg as tw
    >>> tw.devices()[0]
    'cpu'
    """
    return _native.devices()


def autocast(dtype="bfloat16", enabled=True):
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
    (talweg.bfloat16, talweg.float32)
    """
    if dtype == "float8":
        dtype = "float8_e4m3fn"
    return _Scope(_native.set_autocast, dtype if enabled else "float32")


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
    2.4
    """

    def __init__(self, init_scale=65536.0, growth_interval=2000):
        self._native = _native.LossScale(init_scale, growth_interval)

    def scale(self, loss):
        """The loss to differentiate."""
        return self._native.scaled(loss)

    def step(self, optimizer):
        """One step with the collected gradients, which are then forgotten."""
        self._native.step(optimizer._native)

    def update(self):
        """The factor changes with each step by itself: this is here for loops written for PyTorch."""

    def get_scale(self):
        """The factor now."""
        return self._native.factor()

    def state_dict(self):
        """What a checkpoint needs, by name."""
        return dict(self._native.state())

    def load_state_dict(self, state):
        """Takes over what ``state_dict`` gave."""
        own = self.state_dict()
        if set(own) != set(state):
            raise value_error(f"load_state_dict: expected {sorted(own)}, not {sorted(state)}")
        for name, tensor in own.items():
            tensor.assign(state[name])
