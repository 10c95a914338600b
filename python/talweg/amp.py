"""Training in fewer bits, with PyTorch's names: ``autocast`` and ``GradScaler``.

>>> with tw.amp.autocast("cpu"):
...     y = tw.ones(2, 3) @ tw.ones(3, 2)
>>> y.dtype
talweg.bfloat16
"""

import functools
import warnings

from . import _native
from ._checked import check, type_error, value_error
from ._native import Tensor, dtype

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]

# PyTorch's choice for each kind of device.
_DTYPES = {"cuda": "float16", "cpu": "bfloat16"}
_OFF = dtype("float32")


def _kind(device_type):
    """The kind of a device, ``cuda`` or ``cpu``; ``None`` for what names none."""
    name = getattr(device_type, "type", None) or (device_type if isinstance(device_type, str) else None)
    kind = name.split(":")[0] if isinstance(name, str) else None
    return kind if kind in _DTYPES else None


def _has_cuda():
    return any(name.startswith("cuda:") for name in _native.devices())


def is_autocast_available(device_type):
    """True for kinds of devices that ``autocast`` knows.

    >>> tw.amp.is_autocast_available("cpu"), tw.amp.is_autocast_available("tpu")
    (True, False)
    """
    return _kind(device_type) is not None


class autocast:
    """A scope or decorator in which products, convolutions and attention run in ``bfloat16`` or ``float16``.

    ``device_type`` is ``"cuda"`` or ``"cpu"``; without ``dtype`` it decides: ``float16`` or ``bfloat16``. A dtype may stand
    in its place: ``autocast("bfloat16")`` is for whatever device computes. Without a GPU ``"cuda"`` does nothing and warns.

    With ``dtype="float8"`` (``float8_e4m3fn``) linear layers whose sizes are multiples of 16 multiply in 8-bit floats,
    their gradients in ``float8_e5m2``, each tensor scaled by its greatest magnitude; the rest runs in ``bfloat16``.

    Losses, softmax and sums of exponentials stay in ``float32``, and so do parameters. ``float16`` needs a
    ``GradScaler``, or small gradients vanish. ``cache_enabled`` changes nothing: a weight is cast once in any case.

    >>> with tw.autocast(device_type="cpu", dtype=tw.bfloat16):
    ...     y = tw.ones(2, 3) @ tw.ones(3, 2)
    >>> y.dtype
    talweg.bfloat16
    >>> layer = tw.nn.Linear(32, 48)
    >>> with tw.autocast("cpu", "float8"):
    ...     y = layer(tw.ones(16, 32))
    >>> y.dtype, layer.weight.dtype
    (talweg.bfloat16, talweg.float32)
    """

    def __init__(self, device_type=None, dtype=None, enabled=True, cache_enabled=None):
        kind = _kind(device_type)
        if kind is None and device_type is not None:
            if dtype is not None:
                raise value_error(f"autocast: device_type must be 'cuda' or 'cpu', not {device_type!r}")
            dtype, device_type = device_type, None
        if kind == "cuda" and enabled and not _has_cuda():
            warnings.warn("autocast: device_type is 'cuda', but there is no GPU: it does nothing", stacklevel=2)
            enabled = False
        dtype = dtype or _DTYPES[kind or "cpu"]
        dtype = "float8_e4m3fn" if isinstance(dtype, str) and dtype == "float8" else dtype
        self.device, self.fast_dtype, self._enabled = kind or "cpu", dtype, enabled
        self._value = dtype if enabled else _OFF
        self._before = []

    def __enter__(self):
        self._before.append(_native.set_autocast(self._value))
        return self

    def __exit__(self, *_exception):
        _native.set_autocast(self._before.pop())

    def __call__(self, f):
        @functools.wraps(f)
        def inside(*args, **kwargs):
            before = _native.set_autocast(self._value)
            try:
                return f(*args, **kwargs)
            finally:
                _native.set_autocast(before)

        return inside


def _now():
    """The dtype that products run in now."""
    found = _native.set_autocast(_OFF)
    _native.set_autocast(found)
    return found


def is_autocast_enabled(device_type=None):
    """True inside of ``autocast``.

    >>> with tw.autocast("cpu"):
    ...     tw.is_autocast_enabled()
    True
    """
    return _now() != _OFF


def get_autocast_dtype(device_type="cpu"):
    """The dtype of the ``autocast`` around; outside of any, what it would be for a kind of device.

    >>> tw.get_autocast_dtype("cpu"), tw.get_autocast_dtype("cuda")
    (talweg.bfloat16, talweg.float16)
    """
    kind = _kind(device_type)
    if kind is None:
        raise value_error(f"get_autocast_dtype: device_type must be 'cuda' or 'cpu', not {device_type!r}")
    return _now() if is_autocast_enabled() else dtype(_DTYPES[kind])


def get_autocast_gpu_dtype():
    """``get_autocast_dtype("cuda")``."""
    return get_autocast_dtype("cuda")


def get_autocast_cpu_dtype():
    """``get_autocast_dtype("cpu")``."""
    return get_autocast_dtype("cpu")


def custom_fwd(fwd=None, *, device_type="cuda", cast_inputs=None):
    """Marks ``forward`` of an ``autograd.Function``: with ``cast_inputs`` its float tensors are cast, and ``autocast`` is
    off inside."""
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def forward(*args, **kwargs):
        if cast_inputs is None or not is_autocast_enabled():
            return fwd(*args, **kwargs)
        cast = lambda x: x.astype(cast_inputs) if isinstance(x, Tensor) and x.dtype.is_floating_point else x  # noqa: E731
        with autocast(enabled=False):
            return fwd(*map(cast, args), **{k: cast(v) for k, v in kwargs.items()})

    return forward


def custom_bwd(bwd=None, *, device_type="cuda"):
    """Marks ``backward`` of an ``autograd.Function``: gradients are always taken without ``autocast``."""
    return custom_bwd if bwd is None else bwd


class GradScaler:
    """Multiplies the loss so that small gradients survive ``float16``, and divides the gradients.

    A step whose gradients are not all finite is left out and halves the factor; ``growth_interval`` good steps in a row
    double it. The factor changes in ``step``; ``update()`` is there for loops written for PyTorch.

    >>> w = tw.tensor([3.0], requires_grad=True)
    >>> optimizer, scaler = tw.optim.SGD([w], lr=0.1), tw.amp.GradScaler()
    >>> scaler.scale((w * w).sum()).backward()
    >>> scaler.unscale_(optimizer)
    >>> w.grad
    tensor([6.])
    >>> scaler.step(optimizer)
    >>> scaler.update()
    >>> round(w.item(), 4)
    2.4
    """

    def __init__(
        self, device="cuda", init_scale=2.0**16, growth_factor=2.0, backoff_factor=0.5, growth_interval=2000, enabled=True
    ):
        if not isinstance(device, str) and not hasattr(device, "type"):
            raise type_error(f"GradScaler: device must be a string, not {type(device).__name__}; init_scale is a keyword")
        if growth_factor != 2.0 or backoff_factor != 0.5:
            raise value_error("GradScaler: the factor is doubled and halved: growth_factor must be 2.0 and backoff_factor 0.5")
        self._native = _native.LossScale(init_scale, growth_interval)
        self._enabled, self._interval, self._divided = enabled, growth_interval, set()

    def is_enabled(self):
        """False if it was made with ``enabled=False``, and does nothing."""
        return self._enabled

    def scale(self, outputs):
        """The loss to differentiate, or a container of losses."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, (list, tuple)):
            return type(outputs)(map(self.scale, outputs))
        return self._native.scaled(outputs)

    def _state(self):
        return dict(self._native.state())

    def _parameters(self, optimizer):
        return [p for g in optimizer.param_groups for p in g["params"]]

    def unscale_(self, optimizer):
        """Divides the gradients of an optimizer, once a step, so that they can be clipped."""
        if not self._enabled:
            return
        if id(optimizer) in self._divided:
            raise value_error("unscale_() has been called for this optimizer since the last step")
        self._rescale(optimizer, 1.0 / self._state()["loss_scale"])
        self._divided.add(id(optimizer))

    def _rescale(self, optimizer, factor):
        from ._graph import has_grad

        for p in self._parameters(optimizer):
            if has_grad(p):
                p.grad = (p.grad * factor).astype(p.dtype)

    def step(self, optimizer, *args, **kwargs):
        """One step with the collected gradients, which are then forgotten; none if they are not all finite."""
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if args or kwargs:
            raise value_error("GradScaler.step: closures are not supported")
        if id(optimizer) in self._divided:
            # The step divides by the factor itself, a power of two, and looks for what is not finite.
            self._rescale(optimizer, self._state()["loss_scale"])
            self._divided.discard(id(optimizer))
        self._native.step(optimizer._native)

    def update(self, new_scale=None):
        """The factor changes with each step by itself; ``new_scale`` sets it."""
        if new_scale is not None:
            self._state()["loss_scale"].assign(_native.tensor(new_scale, dtype="float32"))

    def get_scale(self):
        """The factor now."""
        return self._native.factor() if self._enabled else 1.0

    def get_growth_factor(self):
        """2: a good run doubles the factor."""
        return 2.0

    def get_backoff_factor(self):
        """0.5: a bad step halves the factor."""
        return 0.5

    def get_growth_interval(self):
        """Good steps in a row that double the factor."""
        return self._interval

    def state_dict(self):
        """What a checkpoint needs, by name."""
        if not self._enabled:
            return {}
        good = int(self._state()["loss_scale_good"].item())
        return {
            "scale": self.get_scale(),
            "growth_factor": 2.0,
            "backoff_factor": 0.5,
            "growth_interval": self._interval,
            "_growth_tracker": good,
        }

    def load_state_dict(self, state_dict):
        """Takes over what ``state_dict`` returned."""
        own = self.state_dict()
        if set(own) != set(state_dict):
            raise value_error(f"load_state_dict: expected {sorted(own)}, not {sorted(state_dict)}")
        if not own:
            return
        if state_dict["growth_interval"] != self._interval:
            self.__init__(growth_interval=state_dict["growth_interval"])
        named = {"loss_scale": state_dict["scale"], "loss_scale_good": state_dict["_growth_tracker"]}
        for name, value in named.items():
            self._state()[name].assign(_native.tensor(float(value), dtype="float32"))


check(globals(), ["GradScaler", "autocast", "get_autocast_dtype"])
