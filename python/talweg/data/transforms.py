"""Transforms of images, with torchvision's names.

An image is an array ``[height, width]`` or ``[height, width, channels]``, as ``datasets`` give them and as PIL images
become (``numpy.asarray``), or a tensor ``[..., channels, height, width]``. Transforms give back the same kind;
``ToTensor`` makes tensors of images. Everything is computed by NumPy: sizes that change from image to image
compile nothing. Random numbers come from talweg's generator.
"""

import math
import numbers
from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

import numpy as np

from .. import _native
from .._checked import check, type_error, value_error
from .._native import Tensor
from .filters import resized


class InterpolationMode(Enum):
    """Interpolation modes."""

    NEAREST = "nearest"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"


def _draw(n: int = 1) -> list[float]:
    """Numbers from 0 to 1."""
    return _native.rand(n, dtype="float64").tolist()


def _between(low: float, high: float) -> float:
    return low + (high - low) * _draw()[0]


def _below(n: int) -> int:
    return min(int(_draw()[0] * n), n - 1)


def _planes(image: Any) -> tuple[np.ndarray, Callable[[np.ndarray], Any]]:
    """An image as ``[..., height, width]``, and how to make the same kind of image of the result."""
    if isinstance(image, Tensor):
        if image.ndim < 2:
            raise type_error(f"an image has at least two dimensions, not shape {tuple(image.shape)}")
        return np.asarray(image), lambda a: _native.tensor(np.ascontiguousarray(a))
    if not hasattr(image, "__array__") and not hasattr(image, "__array_interface__"):
        raise type_error(f"an image is an array, a tensor or a PIL image, not {type(image).__name__}")
    array = np.asarray(image)
    if array.ndim == 2:
        return array, np.ascontiguousarray
    if array.ndim != 3:
        raise type_error(f"an image has two or three dimensions, not shape {array.shape}")
    return np.moveaxis(array, -1, 0), lambda a: np.ascontiguousarray(np.moveaxis(a, 0, -1))


def _pair(size: Any, what: str) -> tuple[int, int]:
    if isinstance(size, numbers.Integral):
        return int(size), int(size)
    if isinstance(size, Sequence) and len(size) in (1, 2):
        return int(size[0]), int(size[-1])
    raise value_error(f"{what}: the size is an int or two, not {size!r}")


def _greatest(array: np.ndarray) -> float:
    """The value of white."""
    return 1.0 if array.dtype.kind == "f" else float(np.iinfo(array.dtype).max) if array.dtype.kind in "iu" else 1.0


class Compose:
    """Transforms in sequence.

    >>> import numpy as np
    >>> Compose([CenterCrop(2), ToTensor()])(np.zeros((4, 4, 3), "uint8")).shape
    talweg.Size([3, 2, 2])
    """

    def __init__(self, transforms: Sequence[Callable[[Any], Any]]) -> None:
        self.transforms = transforms

    def __call__(self, img: Any) -> Any:
        for t in self.transforms:
            img = t(img)
        return img

    def __repr__(self) -> str:
        return f"Compose({list(self.transforms)})"


class _Transform:
    """A transform that shows its settings."""

    def __call__(self, img: Any) -> Any:
        planes, back = _planes(img)
        return back(self._apply(planes))

    def _apply(self, planes: np.ndarray) -> np.ndarray:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v}' for k, v in vars(self).items() if not k.startswith('_'))})"


class ToTensor(_Transform):
    """An image as ``float32[channels, height, width]``; bytes are scaled to 0..1.

    >>> import numpy as np
    >>> ToTensor()(np.full((1, 2, 1), 255, "uint8")).tolist()
    [[[1.0, 1.0]]]
    """

    def __call__(self, pic: Any) -> Tensor:
        if isinstance(pic, Tensor):
            raise type_error("ToTensor: this is a tensor already; use ConvertImageDtype")
        planes, _ = _planes(pic)
        planes = planes[None] if planes.ndim == 2 else planes
        made = planes.astype("float32") / np.float32(255) if planes.dtype == np.uint8 else planes
        return _native.tensor(np.ascontiguousarray(made))


class PILToTensor(_Transform):
    """An image as a tensor ``[channels, height, width]`` of the same numbers."""

    def __call__(self, pic: Any) -> Tensor:
        planes, _ = _planes(pic)
        return _native.tensor(np.ascontiguousarray(planes[None] if planes.ndim == 2 else planes))


class ConvertImageDtype(_Transform):
    """A tensor in another element type, scaled so that white stays white.

    >>> ConvertImageDtype(tw.float32)(tw.full((1, 1, 1), 255, dtype=tw.uint8)).item()
    1.0
    """

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype

    def __call__(self, img: Tensor) -> Tensor:
        to = np.dtype(self.dtype if isinstance(self.dtype, str) else self.dtype.name)
        array = np.asarray(img)
        if array.dtype == to:
            return img
        if array.dtype.kind == "f" and to.kind == "f":
            made = array.astype(to)
        elif to.kind == "f":
            made = (array / _greatest(array)).astype(to)
        elif array.dtype.kind == "f":
            made = (array * (np.iinfo(to).max + 1.0 - 1e-3)).astype(to)
        else:
            have, want = (np.iinfo(d).max + 1 for d in (array.dtype, to))
            made = (array // (have // want)).astype(to) if have > want else array.astype(to) * to.type(want // have)
        return _native.tensor(made)


class Normalize(_Transform):
    """Normalizes a float tensor by the mean and standard deviation of each channel.

    >>> Normalize([0.5], [0.25])(tw.ones(1, 1, 2)).tolist()
    [[[2.0, 2.0]]]
    """

    def __init__(self, mean: Sequence[float], std: Sequence[float], inplace: bool = False) -> None:
        if inplace:
            raise value_error("Normalize: inplace=True is not done; use what is returned")
        self.mean, self.std = mean, std
        if any(s == 0 for s in self._row(std)):
            raise value_error("Normalize: a deviation is 0")

    @staticmethod
    def _row(x: Any) -> list[float]:
        return [float(v) for v in x] if isinstance(x, Sequence) else np.asarray(x, "float64").reshape(-1).tolist()

    def __call__(self, tensor: Tensor) -> Tensor:
        if not isinstance(tensor, Tensor):
            raise type_error(f"Normalize: takes a tensor, not {type(tensor).__name__}: put ToTensor before it")
        array = np.asarray(tensor)
        if array.dtype.kind != "f" or array.ndim < 3:
            raise type_error(f"Normalize: takes floats [..., channels, height, width], not {array.dtype} of shape {array.shape}")
        mean, std = (np.asarray(self._row(x), array.dtype).reshape(-1, 1, 1) for x in (self.mean, self.std))
        if any(len(x) not in (1, array.shape[-3]) for x in (mean, std)):
            raise value_error(f"Normalize: {len(mean)} means and {len(std)} deviations do not fit {array.shape[-3]} channels")
        return _native.tensor((array - mean) / std)


class Resize(_Transform):
    """Resizes to a size, or the shorter side to one number; ``max_size`` then bounds the longer side.

    >>> import numpy as np
    >>> Resize(4)(np.zeros((8, 16), "uint8")).shape
    (4, 8)
    """

    def __init__(self, size: Any, interpolation: Any = InterpolationMode.BILINEAR, max_size: int | None = None, antialias: bool | None = True) -> None:
        if not isinstance(size, (numbers.Integral, Sequence)) or isinstance(size, str):
            raise type_error(f"Resize: the size is an int or two, not {size!r}")
        if max_size is not None and isinstance(size, Sequence) and len(size) == 2:
            raise value_error("Resize: max_size is for one size, that of the shorter side")
        self.size, self.max_size = size, max_size
        self.interpolation, self.antialias = InterpolationMode(interpolation), bool(antialias)

    def _apply(self, planes: np.ndarray) -> np.ndarray:
        height, width = planes.shape[-2:]
        if isinstance(self.size, Sequence) and len(self.size) == 2:
            new = (int(self.size[0]), int(self.size[1]))
        else:
            short, long = min(height, width), max(height, width)
            one = int(self.size[0] if isinstance(self.size, Sequence) else self.size)
            other = int(one * long / short)
            if self.max_size is not None and other > self.max_size:
                one, other = int(self.max_size * one / other), self.max_size
            new = (one, other) if height <= width else (other, one)
        return resized(planes, *new, self.interpolation.value, self.antialias)


def _window(planes: np.ndarray, top: int, left: int, height: int, width: int) -> np.ndarray:
    return planes[..., top : top + height, left : left + width]


def _padded(planes: np.ndarray, padding: Any, fill: float = 0, mode: str = "constant") -> np.ndarray:
    """Padding: one width, two for left and right and for top and bottom, or left, top, right and bottom."""
    p = [padding] * 4 if isinstance(padding, numbers.Integral) else list(padding)
    p = p * 4 if len(p) == 1 else [*p, *p] if len(p) == 2 else p
    if len(p) != 4 or any(x < 0 for x in p):
        raise value_error(f"the padding is one, two or four widths, not {padding!r}")
    around = [(0, 0)] * (planes.ndim - 2) + [(p[1], p[3]), (p[0], p[2])]
    if mode == "constant":
        return np.pad(planes, around, constant_values=np.asarray(fill).astype(planes.dtype))
    return np.pad(planes, around, mode={"edge": "edge", "reflect": "reflect", "symmetric": "symmetric"}[mode])  # type: ignore[call-overload]


class Pad(_Transform):
    """Pads the edges.

    >>> import numpy as np
    >>> Pad(1, fill=9)(np.zeros((1, 1), "uint8")).tolist()
    [[9, 9, 9], [9, 0, 9], [9, 9, 9]]
    """

    def __init__(self, padding: Any, fill: float = 0, padding_mode: str = "constant") -> None:
        if padding_mode not in ("constant", "edge", "reflect", "symmetric"):
            raise value_error(f"Pad: the mode is constant, edge, reflect or symmetric, not {padding_mode!r}")
        self.padding, self.fill, self.padding_mode = padding, fill, padding_mode

    def _apply(self, planes: np.ndarray) -> np.ndarray:
        return _padded(planes, self.padding, self.fill, self.padding_mode)


class CenterCrop(_Transform):
    """Center crop; a smaller image is zero-padded first.

    >>> import numpy as np
    >>> CenterCrop(2)(np.arange(16).reshape(4, 4)).tolist()
    [[5, 6], [9, 10]]
    """

    def __init__(self, size: Any) -> None:
        self.size = _pair(size, "CenterCrop")

    def _apply(self, planes: np.ndarray) -> np.ndarray:
        (height, width), (h, w) = self.size, planes.shape[-2:]
        if h < height or w < width:
            down, right = max(height - h, 0), max(width - w, 0)
            planes = _padded(planes, [right // 2, down // 2, (right + 1) // 2, (down + 1) // 2])
            h, w = planes.shape[-2:]
        return _window(planes, round((h - height) / 2.0), round((w - width) / 2.0), height, width)


class RandomCrop(_Transform):
    """Random crop, after padding.

    >>> import numpy as np
    >>> RandomCrop(3, padding=1)(np.zeros((4, 4, 3), "uint8")).shape
    (3, 3, 3)
    """

    def __init__(self, size: Any, padding: Any = None, pad_if_needed: bool = False, fill: float = 0, padding_mode: str = "constant") -> None:
        self.size, self.padding, self.pad_if_needed = _pair(size, "RandomCrop"), padding, pad_if_needed
        self.fill, self.padding_mode = fill, padding_mode

    def _apply(self, planes: np.ndarray) -> np.ndarray:
        if self.padding is not None:
            planes = _padded(planes, self.padding, self.fill, self.padding_mode)
        height, width = self.size
        if self.pad_if_needed:
            h, w = planes.shape[-2:]
            planes = _padded(planes, [max(width - w, 0), max(height - h, 0)], self.fill, self.padding_mode)
        h, w = planes.shape[-2:]
        if h < height or w < width:
            raise value_error(f"RandomCrop: {height} × {width} does not fit into an image of {h} × {w}")
        return _window(planes, _below(h - height + 1), _below(w - width + 1), height, width)


class RandomResizedCrop(_Transform):
    """Crops a random area with a random aspect ratio, and resizes it to ``size``.

    >>> import numpy as np
    >>> RandomResizedCrop(5)(np.zeros((40, 30, 3), "uint8")).shape
    (5, 5, 3)
    """

    def __init__(
        self,
        size: Any,
        scale: Sequence[float] = (0.08, 1.0),
        ratio: Sequence[float] = (3 / 4, 4 / 3),
        interpolation: Any = InterpolationMode.BILINEAR,
        antialias: bool | None = True,
    ) -> None:
        self.size, self.scale, self.ratio = _pair(size, "RandomResizedCrop"), tuple(scale), tuple(ratio)
        self.interpolation, self.antialias = InterpolationMode(interpolation), bool(antialias)

    def _apply(self, planes: np.ndarray) -> np.ndarray:
        h, w = planes.shape[-2:]
        low, high = (math.log(r) for r in self.ratio)
        for _ in range(10):
            area, ratio = h * w * _between(*self.scale), math.exp(_between(low, high))
            width, height = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < width <= w and 0 < height <= h:
                top, left = _below(h - height + 1), _below(w - width + 1)
                break
        else:  # the middle, in the nearest ratio
            width, height = w, h
            if w / h < min(self.ratio):
                height = round(w / min(self.ratio))
            elif w / h > max(self.ratio):
                width = round(h * max(self.ratio))
            top, left = (h - height) // 2, (w - width) // 2
        return resized(_window(planes, top, left, height, width), *self.size, self.interpolation.value, self.antialias)


class _Chance(_Transform):
    """A transform that is applied with a probability."""

    def __init__(self, p: float = 0.5) -> None:
        if not 0 <= p <= 1:
            raise value_error(f"{type(self).__name__}: the probability is from 0 to 1, not {p}")
        self.p = p

    def __call__(self, img: Any) -> Any:
        return super().__call__(img) if _draw()[0] < self.p else img


class RandomHorizontalFlip(_Chance):
    """Horizontal flip with probability ``p``.

    >>> import numpy as np
    >>> RandomHorizontalFlip(1.0)(np.arange(3)[None]).tolist()
    [[2, 1, 0]]
    """

    def _apply(self, planes: np.ndarray) -> np.ndarray:
        return planes[..., ::-1]


class RandomVerticalFlip(_Chance):
    """Vertical flip with probability ``p``."""

    def _apply(self, planes: np.ndarray) -> np.ndarray:
        return planes[..., ::-1, :]


class RandomErasing(_Chance):
    """Erases a random rectangle with probability ``p``: with ``value``, or with ``"random"`` by normal noise."""

    def __init__(self, p: float = 0.5, scale: Sequence[float] = (0.02, 0.33), ratio: Sequence[float] = (0.3, 3.3), value: Any = 0, inplace: bool = False) -> None:
        super().__init__(p)
        if inplace:
            raise value_error("RandomErasing: inplace=True is not done; use what is returned")
        self.scale, self.ratio, self.value = tuple(scale), tuple(ratio), value

    def _apply(self, planes: np.ndarray) -> np.ndarray:
        h, w = planes.shape[-2:]
        low, high = (math.log(r) for r in self.ratio)
        for _ in range(10):
            area, ratio = h * w * _between(*self.scale), math.exp(_between(low, high))
            height, width = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if height < h and width < w:
                top, left = _below(h - height + 1), _below(w - width + 1)
                planes = planes.copy()
                if self.value == "random":
                    fill = np.asarray(_native.randn(*planes.shape[:-2], height, width))
                else:
                    fill = np.asarray(self.value)
                    fill = fill.reshape(-1, 1, 1) if fill.ndim == 1 else fill
                _window(planes, top, left, height, width)[...] = fill
                return planes
        return planes


def _gray(planes: np.ndarray) -> np.ndarray:
    """Grayscale, with one channel."""
    if planes.ndim < 3 or planes.shape[-3] == 1:
        return planes.astype("float32")
    if planes.shape[-3] < 3:
        raise value_error(f"an image has one channel or three, not {planes.shape[-3]}")
    r, g, b = (planes[..., i : i + 1, :, :].astype("float32") for i in range(3))
    gray = 0.2989 * r + 0.587 * g + 0.114 * b
    return gray if planes.dtype.kind == "f" else np.floor(gray)


def _blended(planes: np.ndarray, other: np.ndarray | float, factor: float) -> np.ndarray:
    mixed = np.clip(factor * planes.astype("float32") + (1.0 - factor) * other, 0, _greatest(planes))
    return mixed.astype(planes.dtype)


def _hued(planes: np.ndarray, shift: float) -> np.ndarray:
    """With the hue of each pixel rotated by a fraction of the circle."""
    if planes.ndim < 3 or planes.shape[-3] == 1:
        return planes
    rgb = np.moveaxis(planes, -3, 0).astype("float32") / _greatest(planes)
    top, low = rgb.max(0), rgb.min(0)
    span = top - low
    part = np.where(span == 0, 1, span)
    r, g, b = ((top - c) / part for c in rgb)
    hue = np.where(rgb[0] == top, b - g, np.where(rgb[1] == top, 2 + r - b, 4 + g - r))
    hue = (np.where(span == 0, 0, hue / 6) + shift) % 1.0
    share = np.where(top == 0, 0, span / np.where(top == 0, 1, top))
    sector, rest = np.divmod(hue * 6, 1)
    p, q, t = top * (1 - share), top * (1 - share * rest), top * (1 - share * (1 - rest))
    which = sector.astype(int) % 6
    made = [np.choose(which, parts) for parts in ([top, q, p, p, t, top], [t, top, top, q, p, p], [p, p, t, top, top, q])]
    out = np.moveaxis(np.stack(made), 0, -3) * _greatest(planes)
    return (out if planes.dtype.kind == "f" else np.floor(out + 0.5)).astype(planes.dtype)


class Grayscale(_Transform):
    """Grayscale, in one channel or three equal ones."""

    def __init__(self, num_output_channels: int = 1) -> None:
        if num_output_channels not in (1, 3):
            raise value_error(f"Grayscale: one channel or three, not {num_output_channels}")
        self.num_output_channels = num_output_channels

    def _apply(self, planes: np.ndarray) -> np.ndarray:
        gray = _gray(planes if planes.ndim > 2 else planes[None]).astype(planes.dtype)
        return np.repeat(gray, self.num_output_channels, -3)


class RandomGrayscale(_Chance):
    """Grayscale with probability ``p``, with as many channels as before."""

    def __init__(self, p: float = 0.1) -> None:
        super().__init__(p)

    def _apply(self, planes: np.ndarray) -> np.ndarray:
        return np.broadcast_to(_gray(planes).astype(planes.dtype), planes.shape)


class ColorJitter(_Transform):
    """Changes brightness, contrast, saturation and hue by random amounts, in a random order.

    A number ``x`` stands for factors from ``1 - x`` to ``1 + x`` (of the hue: turns from ``-x`` to ``x``), a pair for
    the range itself.

    >>> import numpy as np
    >>> ColorJitter(brightness=(2.0, 2.0))(np.full((1, 1, 3), 50, "uint8")).tolist()
    [[[100, 100, 100]]]
    """

    def __init__(self, brightness: Any = 0, contrast: Any = 0, saturation: Any = 0, hue: Any = 0) -> None:
        self.brightness = self._range("brightness", brightness, 1, (0, math.inf))
        self.contrast = self._range("contrast", contrast, 1, (0, math.inf))
        self.saturation = self._range("saturation", saturation, 1, (0, math.inf))
        self.hue = self._range("hue", hue, 0, (-0.5, 0.5))

    @staticmethod
    def _range(name: str, x: Any, center: float, bound: tuple[float, float]) -> tuple[float, float] | None:
        if isinstance(x, numbers.Number):
            low, high = center - float(x), center + float(x)  # type: ignore[arg-type]
            low = max(low, 0.0) if center else low
            if high < low or float(x) < 0:  # type: ignore[arg-type]
                raise value_error(f"ColorJitter: {name} must not be negative, but is {x}")
        else:
            low, high = (float(v) for v in x)
        if not bound[0] <= low <= high <= bound[1]:
            raise value_error(f"ColorJitter: {name} is within {bound}, not {x}")
        return None if low == high == center else (low, high)

    def _apply(self, planes: np.ndarray) -> np.ndarray:
        steps: list[tuple[Any, Callable[[np.ndarray, float], np.ndarray]]] = [
            (self.brightness, lambda p, f: _blended(p, 0.0, f)),
            (self.contrast, lambda p, f: _blended(p, _gray(p).mean((-3, -2, -1) if p.ndim > 2 else None, keepdims=True), f)),
            (self.saturation, lambda p, f: p if p.ndim < 3 or p.shape[-3] == 1 else _blended(p, _gray(p), f)),
            (self.hue, _hued),
        ]
        for i in np.argsort(_draw(4)):
            bounds, step = steps[i]
            if bounds is not None:
                planes = step(planes, _between(*bounds))
        return planes


class Lambda(_Transform):
    """A function as a transform.

    >>> Lambda(lambda x: x + 1)(2)
    3
    """

    def __init__(self, lambd: Callable[[Any], Any]) -> None:
        if not callable(lambd):
            raise type_error(f"Lambda: expected a function, not {type(lambd).__name__}")
        self.lambd = lambd

    def __call__(self, img: Any) -> Any:
        return self.lambd(img)


class RandomApply(_Transform):
    """Applies all transforms with probability ``p``."""

    def __init__(self, transforms: Sequence[Callable[[Any], Any]], p: float = 0.5) -> None:
        self.transforms, self.p = transforms, p

    def __call__(self, img: Any) -> Any:
        return Compose(self.transforms)(img) if _draw()[0] < self.p else img


class RandomChoice(_Transform):
    """Applies one transform, drawn with weights ``p``."""

    def __init__(self, transforms: Sequence[Callable[[Any], Any]], p: Sequence[float] | None = None) -> None:
        self.transforms, self.p = transforms, p

    def __call__(self, img: Any) -> Any:
        weights = np.asarray(self.p or [1.0] * len(self.transforms), "float64")
        at = int(np.searchsorted(np.cumsum(weights / weights.sum()), _draw()[0], "right"))
        return self.transforms[min(at, len(self.transforms) - 1)](img)


__all__ = [
    "CenterCrop",
    "ColorJitter",
    "Compose",
    "ConvertImageDtype",
    "Grayscale",
    "InterpolationMode",
    "Lambda",
    "Normalize",
    "PILToTensor",
    "Pad",
    "RandomApply",
    "RandomChoice",
    "RandomCrop",
    "RandomErasing",
    "RandomGrayscale",
    "RandomHorizontalFlip",
    "RandomResizedCrop",
    "RandomVerticalFlip",
    "Resize",
    "ToTensor",
]

check(globals(), [n for n in __all__ if n != "InterpolationMode"])
