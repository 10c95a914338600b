"""Well-known data sets from files of this machine, with torchvision's names. Nothing is downloaded: where files are
missing, the error says which, and where they were looked for."""

import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from .. import _native
from .._checked import check, file_error, value_error
from .._files import pt
from .._files.unpickle import Unpickler
from .._native import Tensor
from ..errors import FileError, FileMissingError, FormatError
from ..utils.data import Dataset
from .images import read_picture

IMG_EXTENSIONS = (".jpg", ".jpeg", ".png")


def _missing(what: str, files: Sequence[str], places: Sequence[Path], source: str) -> FileMissingError:
    looked = "".join(f"\n  - {p}" for p in places)
    return FileMissingError(_native.located(f"{what}: {', '.join(files)} not found; nothing is downloaded. Looked in:{looked}\nGet the files from {source}"))


class VisionDataset(Dataset[Any]):
    """Images with what belongs to them: ``transform`` changes the image, ``target_transform`` the rest."""

    def __init__(self, root: Any, transform: Callable[[Any], Any] | None = None, target_transform: Callable[[Any], Any] | None = None) -> None:
        self.root, self.transform, self.target_transform = root, transform, target_transform

    def _changed(self, image: Any, target: Any) -> tuple[Any, Any]:
        image = image if self.transform is None else self.transform(image)
        return image, target if self.target_transform is None else self.target_transform(target)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.root}, {len(self)} examples)"  # type: ignore[arg-type]


def _no_download(name: str, download: bool) -> None:
    if download:
        raise value_error(f"{name}: download=True: nothing is downloaded; put the files into the folder and leave it out")


class MNIST(VisionDataset):
    """Handwritten digits, from the IDX files, gzipped or not, in ``root/MNIST/raw``, ``root/raw`` or ``root``.

    ``data`` is ``uint8[n, 28, 28]``, ``targets`` ``int64[n]``; an example is an array ``[28, 28]`` and an int.
    """

    classes = [f"{i} - {w}" for i, w in enumerate("zero one two three four five six seven eight nine".split())]
    _source = "http://yann.lecun.com/exdb/mnist/"

    def __init__(
        self,
        root: Any,
        train: bool = True,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        download: bool = False,
    ) -> None:
        super().__init__(root, transform, target_transform)
        name = type(self).__name__
        _no_download(name, download)
        self.train = train
        part = "train" if train else "t10k"
        files = [f"{part}-images-idx3-ubyte", f"{part}-labels-idx1-ubyte"]
        places = [Path(root, name, "raw"), Path(root, "raw"), Path(root)]
        found = [next((p / (f + e) for p in places for e in ("", ".gz") if (p / (f + e)).is_file()), None) for f in files]
        if None in found:
            raise _missing(name, [f + "[.gz]" for f in files], places, self._source)
        self.data, targets = (_native.read_idx(os.fspath(f)) for f in found)  # type: ignore[arg-type]
        self.targets: Tensor = targets.to("int64")
        if self.data.ndim != 3 or self.targets.shape != (len(self.data),):
            raise FormatError(_native.located(f"{name}: labels {tuple(targets.shape)} do not fit images {tuple(self.data.shape)}"))
        self._images, self._labels = np.asarray(self.data), self.targets.tolist()

    @property
    def class_to_idx(self) -> dict[str, int]:
        """The numbers of the classes."""
        return {name: i for i, name in enumerate(self.classes)}

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self._changed(np.array(self._images[index]), self._labels[index])


class FashionMNIST(MNIST):
    """Images of clothes, in the files of ``MNIST`` under ``root/FashionMNIST/raw``, ``root/raw`` or ``root``."""

    classes = ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"]
    _source = "https://github.com/zalandoresearch/fashion-mnist"


class KMNIST(MNIST):
    """Cursive Japanese characters, in the files of ``MNIST`` under ``root/KMNIST/raw``, ``root/raw`` or ``root``."""

    classes = ["o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"]
    _source = "https://github.com/rois-codh/kmnist"


def _refused(_storage: Any) -> memoryview:
    raise FormatError("a batch of images holds no tensors of PyTorch's")


class CIFAR10(VisionDataset):
    """Small color images, from ``root/cifar-10-batches-py`` (whose pickles are read as data) or
    ``root/cifar-10-batches-bin``.

    ``data`` is an array ``[n, 32, 32, 3]``, ``targets`` a list; an example is an array ``[32, 32, 3]`` and an int.
    """

    classes = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
    _folder, _key, _labels = "cifar-10-batches", "labels", 1
    _files = {True: [f"data_batch_{i}" for i in range(1, 6)], False: ["test_batch"]}

    def __init__(
        self,
        root: Any,
        train: bool = True,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        download: bool = False,
    ) -> None:
        super().__init__(root, transform, target_transform)
        _no_download(type(self).__name__, download)
        self.train = train
        files = self._files[train]
        places = [Path(root, f"{self._folder}-py"), Path(root, f"{self._folder}-bin"), Path(root)]
        parts = []
        for f in files:
            path = next((p / (f + e) for p in places for e in ("", ".bin") if (p / (f + e)).is_file()), None)
            if path is None:
                raise _missing(type(self).__name__, files, places, "https://www.cs.toronto.edu/~kriz/cifar.html")
            parts.append(self._binary(path) if path.suffix == ".bin" else self._pickled(path))
        self.data = np.concatenate([p for p, _ in parts]).reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)
        self.targets: list[int] = [int(t) for _, labels in parts for t in labels]

    def _binary(self, path: Path) -> tuple[np.ndarray, Sequence[int]]:
        rows = np.frombuffer(path.read_bytes(), "uint8")
        if not len(rows) or len(rows) % (3072 + self._labels):
            raise FormatError(_native.located(f"{path}: {len(rows)} bytes are no images of {3072 + self._labels} bytes each"))
        rows = rows.reshape(-1, 3072 + self._labels)
        return rows[:, self._labels :], rows[:, self._labels - 1].tolist()

    def _pickled(self, path: Path) -> tuple[np.ndarray, Sequence[int]]:
        reader = pt.Reader(_refused, 0, lambda location: None, False)
        try:
            found = Unpickler(memoryview(path.read_bytes()), pt.table(reader), None).load()
            found = {k.decode() if isinstance(k, bytes) else k: v for k, v in found.items()}
            data, labels = found["data"], found[self._key]
            if data.dtype != np.uint8 or data.shape != (len(labels), 3072):
                raise FormatError(f"images of shape {data.shape} do not fit {len(labels)} labels")
        except (FormatError, KeyError, AttributeError, TypeError) as e:
            raise FormatError(_native.located(f"{path}: this is no batch of images: {e}")) from None
        return data, labels

    class_to_idx = MNIST.class_to_idx

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        return self._changed(np.array(self.data[index]), self.targets[index])


class CIFAR100(CIFAR10):
    """``CIFAR10`` with a hundred classes, from ``root/cifar-100-python`` or ``root``; ``targets`` are the fine labels."""

    classes: list[str] = []
    _folder, _key, _labels = "cifar-100", "fine_labels", 2
    _files = {True: ["train"], False: ["test"]}

    def __init__(self, root: Any, *args: Any, **kwargs: Any) -> None:
        inner = Path(root, "cifar-100-python")
        super().__init__(inner if inner.is_dir() else root, *args, **kwargs)


class DatasetFolder(VisionDataset):
    """Files in folders, one folder a class: ``loader`` makes an example of a path.

    ``classes`` are the names of the folders in alphabetical order, ``samples`` pairs of path and class.
    """

    def __init__(
        self,
        root: Any,
        loader: Callable[[str], Any],
        extensions: Sequence[str] | None = None,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ) -> None:
        super().__init__(root, transform, target_transform)
        self.loader, self.extensions = loader, extensions
        try:
            self.classes = sorted(e.name for e in os.scandir(root) if e.is_dir())
        except OSError as e:
            raise file_error(f"{type(self).__name__}: cannot list {root}: {e.strerror}", e) from None
        if not self.classes:
            raise FileError(_native.located(f"{type(self).__name__}: {root} has no folder for a class"))
        self.class_to_idx = {name: i for i, name in enumerate(self.classes)}
        endings = tuple(e.lower() for e in extensions or ("",))
        is_valid = is_valid_file or (lambda path: path.lower().endswith(endings))
        self.samples = [
            (path, label)
            for label, name in enumerate(self.classes)
            for folder, _, files in sorted(os.walk(os.path.join(root, name), followlinks=True))
            for path in (os.path.join(folder, f) for f in sorted(files))
            if is_valid(path)
        ]
        self.targets = [label for _, label in self.samples]
        empty = [name for i, name in enumerate(self.classes) if i not in set(self.targets)]
        if empty and not allow_empty:
            known = "" if extensions is None else f" ({', '.join(extensions)})"
            raise FileError(_native.located(f"{type(self).__name__}: no files{known} in {', '.join(empty)}"))

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        path, target = self.samples[index]
        return self._changed(self.loader(path), target)


class ImageFolder(DatasetFolder):
    """PNG and JPEG images in folders, one folder a class. An example is an array ``[height, width, 3]`` and an int;
    images of different sizes need a transform before they can be stacked."""

    def __init__(
        self,
        root: Any,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
        loader: Callable[[str], Any] = read_picture,
        is_valid_file: Callable[[str], bool] | None = None,
        allow_empty: bool = False,
    ) -> None:
        extensions = IMG_EXTENSIONS if is_valid_file is None else None
        super().__init__(root, loader, extensions, transform, target_transform, is_valid_file, allow_empty)
        self.imgs = self.samples


class CocoCaptions(VisionDataset):
    """Images with their captions, from a folder and COCO's JSON file of annotations. An example is an array
    ``[height, width, 3]`` and a list of strings."""

    def __init__(
        self,
        root: Any,
        annFile: Any,
        transform: Callable[[Any], Any] | None = None,
        target_transform: Callable[[Any], Any] | None = None,
    ) -> None:
        super().__init__(root, transform, target_transform)
        try:
            with open(annFile, "rb") as file:
                told = json.load(file)
            captions: dict[Any, list[str]] = {}
            for a in told["annotations"]:
                captions.setdefault(a["image_id"], []).append(a["caption"])
            files = {i["id"]: i["file_name"] for i in told["images"]}
        except OSError as e:
            raise file_error(f"CocoCaptions: cannot read {annFile}: {e.strerror}", e) from None
        except (ValueError, KeyError, TypeError) as e:
            raise FormatError(_native.located(f"{annFile}: these are no annotations of captions: {e!r}")) from None
        self.ids = sorted(files)
        self._files, self._captions = files, captions

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> tuple[Any, Any]:
        which = self.ids[index]
        return self._changed(read_picture(os.path.join(self.root, self._files[which])), list(self._captions.get(which, [])))


__all__ = [
    "CIFAR10",
    "CIFAR100",
    "CocoCaptions",
    "DatasetFolder",
    "FashionMNIST",
    "ImageFolder",
    "KMNIST",
    "MNIST",
    "VisionDataset",
]

check(globals(), __all__)
