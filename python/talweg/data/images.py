"""Images: decoding, and augmentation with the randomness of a seed, an epoch and an index."""

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import _native
from .._checked import file_error, type_error, value_error
from .._native import Tensor
from ..utils.data import Dataset


def decode_image(content: bytes, mode: str = "RGB", name: str = "image") -> Tensor:
    """The content of a PNG or JPEG file as ``uint8[channels, height, width]``: three channels, or with ``"GRAY"`` one.

    >>> decode_image(encode_png(tw.zeros(1, 4, 5, dtype=tw.uint8))).shape
    talweg.Size([3, 4, 5])
    """
    pixels = _pixels(content, mode, name)
    return pixels.unsqueeze(0) if pixels.ndim == 2 else pixels.permute(2, 0, 1)


def read_image(path: str | os.PathLike[str], mode: str = "RGB") -> Tensor:
    """A PNG or JPEG file as ``uint8[channels, height, width]``."""
    return decode_image(_content(path), mode, os.fspath(path))


def read_picture(path: str | os.PathLike[str], mode: str = "RGB") -> np.ndarray:
    """A PNG or JPEG file as an array ``[height, width, 3]``, or gray ``[height, width]``, as PIL would show it: what
    ``transforms`` take before ``ToTensor``."""
    return np.array(_pixels(_content(path), mode, os.fspath(path)))


def _content(path: str | os.PathLike[str]) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as e:
        raise file_error(f"cannot read {os.fspath(path)}: {e.strerror}", e) from None


def _pixels(content: bytes, mode: str, name: str) -> Tensor:
    if mode not in ("RGB", "GRAY", "L"):
        raise value_error(f"decode_image: the mode is 'RGB' or 'GRAY', not {mode!r}")
    return _native.decode_image(name, content, mode != "RGB")


def encode_png(image: Any) -> bytes:
    """The PNG of a tensor ``uint8[channels, height, width]``, or of an array ``[height, width]`` or
    ``[height, width, channels]``.

    >>> encode_png(tw.zeros(3, 4, 5, dtype=tw.uint8))[:4]
    b'\\x89PNG'
    """
    if isinstance(image, Tensor) and image.ndim == 3:
        image = image.permute(1, 2, 0)
    return _native.encode_png(_native.tensor(np.ascontiguousarray(np.asarray(image))))


class Augment:
    """Steps that are applied to an image in order, as in Rust: the same seed, epoch and index give the same image in
    both languages.

    An image is an array or tensor of uint8, ``[height, width]`` or ``[height, width, channels]``.

    >>> images, _ = tw.utils.data.digits(2)
    >>> augment = Augment().crop(28, 28, padding=2).flip(0.5).normalize([0.5], [0.25])
    >>> augment(images[0], seed=7, epoch=0, index=0).shape
    talweg.Size([1, 28, 28])
    """

    def __init__(self) -> None:
        self._steps: list[tuple[str, list[float]]] = []

    def _then(self, name: str, *numbers: float) -> "Augment":
        made = Augment()
        made._steps = [*self._steps, (name, [float(x) for x in numbers])]
        return made

    def crop(self, height: int, width: int, padding: int = 0) -> "Augment":
        """Random crop, after zero padding."""
        return self._then("crop", height, width, padding)

    def center(self, height: int, width: int) -> "Augment":
        """Center crop."""
        return self._then("center", height, width)

    def flip(self, chance: float = 0.5) -> "Augment":
        """Random horizontal flip."""
        return self._then("flip", chance)

    def resize(self, height: int, width: int) -> "Augment":
        """Scales with a triangle filter."""
        return self._then("resize", height, width)

    def jitter(self, brightness: float = 0.0, contrast: float = 0.0, saturation: float = 0.0) -> "Augment":
        """Changes brightness, contrast and saturation by random factors between ``1 - x`` and ``1 + x``."""
        return self._then("jitter", brightness, contrast, saturation)

    def normalize(self, mean: Sequence[float], std: Sequence[float]) -> "Augment":
        """Converts to ``float32[channels, height, width]`` in 0..1 and normalizes by mean and standard deviation. The last step."""
        if len(mean) != len(std):
            raise value_error(f"normalize: {len(mean)} means do not fit {len(std)} deviations")
        return self._then("normalize", *mean, *std)

    def __call__(self, image: Any, seed: int = 0, epoch: int = 0, index: int = 0) -> Tensor:
        image = image if isinstance(image, Tensor) else _native.tensor(np.asarray(image))
        return _native.augment(image, self._steps, seed, epoch, index)

    def on(self, dataset: Any, seed: int = 0, field: Any = 0) -> "Augmented":
        """A dataset with one field of its examples augmented; the field is an index of a tuple or a key of a dict."""
        return Augmented(dataset, self, seed, field)


class Augmented(Dataset[Any]):
    """A dataset with augmented images; ``set_epoch`` before a pass gives it other random numbers."""

    def __init__(self, dataset: Any, augment: Augment, seed: int, field: Any) -> None:
        if not isinstance(augment, Augment):
            raise type_error(f"Augmented: expected an Augment, not {type(augment).__name__}")
        self.dataset, self.augment, self.seed, self.field, self.epoch = dataset, augment, seed, field, 0

    def set_epoch(self, epoch: int) -> None:
        """Sets the epoch of the next pass."""
        self.epoch = epoch

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        example = self.dataset[index]
        parts = dict(example) if isinstance(example, dict) else list(example)
        parts[self.field] = self.augment(parts[self.field], self.seed, self.epoch, index)
        return parts if isinstance(parts, dict) else tuple(parts)


__all__ = ["Augment", "Augmented", "decode_image", "encode_png", "read_image", "read_picture"]
