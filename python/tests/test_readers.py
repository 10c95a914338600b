"""Readers of files: tables, IDX, pictures, text, tokenizers; well-known data sets from local files."""

import gzip
import json
import pickle
import struct
from pathlib import Path

import numpy as np
import pytest

import talweg as tw
from talweg import data
from talweg.data import datasets, transforms
from talweg.utils.data import DataLoader

FEATURES = tw._native.DATA_FEATURES


def test_csv(tmp_path):
    path = tmp_path / "iris.csv"
    path.write_text("length;width;species;n\n5.1;3.5;setosa;1\n7.0;3.2;versicolor;0\n6.3;3.3;setosa;2\n")
    reader = data.Csv(";").numbers("x", ["length", "width"]).category("y", "species").label("n", "n", 3).text("name", "species")
    table = reader.numbers("one", "length", tw.float64).numbers("whole", ["n"], "int16").read(path)
    assert len(table) == 3 and table["x"].dtype == tw.float32 and table["one"].dtype == tw.float64
    assert table["whole"].dtype == tw.int16
    np.testing.assert_allclose(np.asarray(table["x"]), [[5.1, 3.5], [7.0, 3.2], [6.3, 3.3]], rtol=1e-6)
    assert table["y"].tolist() == [0, 1, 0] and table.classes == {"y": ["setosa", "versicolor"]}
    assert table["name"] == ["setosa", "versicolor", "setosa"] and table[1]["name"] == "versicolor"
    batches = list(DataLoader(table, batch_size=2))
    assert batches[0]["n"].tolist() == [1, 0] and batches[1]["name"] == ["setosa"] and batches[0]["x"].shape == (2, 2)
    assert [b["n"].tolist() for b in DataLoader(table, batch_size=2, num_workers=2)] == [[1, 0], [2]]
    assert [row["name"] for row in data.shard(table, 0, 2)] == ["setosa", "setosa"]
    plain = data.Csv(header=False).numbers("x", ["0", "1"]).parse("1,2\n3,4\n")
    assert plain["x"].tolist() == [[1, 2], [3, 4]]
    with pytest.raises(ValueError, match=r'line 2, column length: expected a number \(float32\), found "five"'):
        data.Csv().numbers("x", "length").parse("length\nfive\n")
    with pytest.raises(ValueError, match="a label from 0 to 1"):
        data.Csv(";").label("n", "n", 2).read(path)
    with pytest.raises(tw.FormatError, match="no column"):
        data.Csv(";").text("z", "z").read(path)
    with pytest.raises(ValueError, match="one of"):
        data.Csv(";").category("y", "species", ["setosa"]).read(path)
    with pytest.raises(OSError, match="missing.csv"):
        data.Csv().text("a", "a").read(tmp_path / "missing.csv")
    with pytest.raises(ValueError, match="no fields"):
        data.Csv().read(path)
    with pytest.raises(ValueError, match="no elements of type float16"):
        data.Csv().numbers("x", "a", "float16").parse("a\n1\n")
    with pytest.raises(KeyError, match="no column 'q'"):
        table["q"]
    with pytest.raises(IndexError):
        table[3]


def test_parquet(tmp_path):
    if "parquet" not in FEATURES:
        with pytest.raises(tw.DeviceError, match="feature `parquet`"):
            data.Parquet().text("a", "a").read(tmp_path / "a.parquet")
        return
    (tmp_path / "a.parquet").write_bytes(b"PAR1 no")
    with pytest.raises(tw.FormatError, match="expected a Parquet file"):
        data.Parquet().text("a", "a").read(tmp_path / "a.parquet")
    with pytest.raises(OSError, match="b.parquet"):
        data.Parquet().text("a", "a").read(tmp_path / "b.parquet")
    reader = data.Parquet().numbers("x", "x").category("y", "name").text("name", "name").numbers("tokens", "tokens", "int64")
    table = reader.read(Path(__file__).parent / "data/table.parquet")  # written by a test of crates/data/src/parquet.rs
    assert table["x"].tolist() == [0.5, 1.5, 2.5] and table["y"].tolist() == [1, 0, 1] and table.classes["y"] == ["a", "b"]
    assert table["name"] == ["b", "a", "b"] and [t.tolist() for t in table["tokens"]] == [[1, 2], [], [3]]
    assert table[2]["tokens"].dtype == tw.int64


def idx(array, code=8):
    return bytes([0, 0, code, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def test_idx(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(idx(np.arange(6, dtype="u1").reshape(2, 3)))
    assert data.read_idx(path).tolist() == [[0, 1, 2], [3, 4, 5]] and data.read_idx(path).dtype == tw.uint8
    path.write_bytes(gzip.compress(idx(np.array([-300, 2], ">i2"), 0x0B)))
    assert data.read_idx(path).tolist() == [-300, 2] and data.read_idx(path).dtype == tw.int16
    path.write_bytes(b"PNG!")
    with pytest.raises(tw.FormatError, match="expected an IDX file"):
        data.read_idx(path)
    path.write_bytes(bytes([0, 0, 8, 2]) + b"\x3f" * 8)
    with pytest.raises(tw.FormatError, match="found 0"):
        data.read_idx(path)


def test_text(tmp_path):
    path = tmp_path / "t"
    path.write_bytes("one\r\ntwo\n\nné\n".encode())
    lines = data.Lines(path)
    assert list(lines) == ["one", "two", "", "né"] and len(lines) == 4 and lines[-1] == "né"
    path.write_bytes(b"ab\xff")
    with pytest.raises(tw.FormatError, match="other bytes at byte 2"):
        data.read_text(path)
    with pytest.raises(OSError, match="nowhere"):
        data.Lines(tmp_path / "nowhere")
    chars = data.Chars("to be or not to be")
    assert chars.size == 7 and chars.decode(tw.tensor(chars.encode("beet"))) == "beet"
    with pytest.raises(ValueError, match=r"character '!' \(at 5\) is not among the 7"):
        chars.encode("robot!")
    with pytest.raises(ValueError, match="token 7 does not exist"):
        chars.decode([7])
    text = data.Text("0123456789", data.Bytes(), 3, stride=2)
    assert len(text) == 4 and [t.tolist() for t in text[-1]] == [[54, 55, 56], [55, 56, 57]]
    a, b = text.cut(0.5)
    assert len(a) == 1 and b[0][0].tolist() == [53, 54, 55]
    batch = next(iter(DataLoader(text, batch_size=4)))
    assert batch[0].shape == (4, 3) and batch[0].dtype == tw.int64
    for wrong in [lambda: data.Text("abc", data.Bytes(), 3), lambda: data.Text("abc", data.Bytes(), 1, 0)]:
        with pytest.raises(ValueError):
            wrong()


def test_bpe(tmp_path):
    if "tokenizers" not in FEATURES:
        with pytest.raises(tw.DeviceError, match="feature `tokenizers`"):
            data.Bpe.train(["a"], 300)
        return
    bpe = data.Bpe.train(["low lower lowest, slow slower slowest"], 280, ["<end>"])
    tokens = bpe.encode("slowest ✓")
    assert len(tokens) < len("slowest ✓".encode()) and bpe.decode(tokens) == "slowest ✓" and bpe.token("<end>") == 0
    bpe.save(tmp_path / "t.json")
    for again in [data.Bpe.load(tmp_path / "t.json"), pickle.loads(pickle.dumps(bpe))]:
        assert again.encode("slowest ✓") == tokens and again.size == bpe.size <= 280
    with pytest.raises(ValueError, match="at least 256"):
        data.Bpe.train(["a"], 10)
    (tmp_path / "t.json").write_text("{}")
    with pytest.raises(tw.FormatError, match="expected a tokenizer"):
        data.Bpe.load(tmp_path / "t.json")
    assert len(data.Text("low lower lowest", bpe, 2)) >= 1


# Pictures.

needs_images = pytest.mark.skipif("image" not in FEATURES, reason="built without the feature image")


def folder(tmp_path):
    for name, height, value in [("dog/a.png", 3, 10), ("cat/b.PNG", 4, 20), ("cat/deep/a.png", 5, 30)]:
        path = tmp_path / "pictures" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data.encode_png(np.full((height, 2, 3), value, "uint8")))
    (tmp_path / "pictures/cat/notes.txt").write_text("no picture")
    return tmp_path / "pictures"


@needs_images
def test_pictures(tmp_path):
    x = tw.arange(24, dtype=tw.uint8).reshape(3, 2, 4)
    assert data.decode_image(data.encode_png(x)).tolist() == x.tolist()
    (tmp_path / "a.png").write_bytes(data.encode_png(x))
    assert data.read_image(tmp_path / "a.png").tolist() == x.tolist()
    assert data.read_image(tmp_path / "a.png", "GRAY").shape == (1, 2, 4)
    assert data.read_picture(tmp_path / "a.png").tolist() == np.moveaxis(np.asarray(x), 0, -1).tolist()
    for broken in [b"", b"not an image", (tmp_path / "a.png").read_bytes()[:40]]:
        with pytest.raises(tw.FormatError, match="expected an image"):
            data.decode_image(broken)
    with pytest.raises(ValueError, match="'RGB' or 'GRAY'"):
        data.read_image(tmp_path / "a.png", "CMYK")
    with pytest.raises(OSError, match="b.png"):
        data.read_image(tmp_path / "b.png")
    with pytest.raises(ValueError, match="uint8"):
        data.encode_png(np.zeros((2, 2)))


def test_without_a_decoder():
    if "image" not in FEATURES:
        with pytest.raises(tw.DeviceError, match="feature `image`"):
            data.decode_image(b"")


@needs_images
@pytest.mark.parametrize("n", [0, 2])
def test_folders_of_pictures(tmp_path, n):
    root = folder(tmp_path)
    set_ = datasets.ImageFolder(root, transforms.Compose([transforms.Resize((4, 4)), transforms.ToTensor()]))
    assert set_.classes == ["cat", "dog"] and set_.class_to_idx == {"cat": 0, "dog": 1} and set_.targets == [0, 0, 1]
    assert [p.rsplit("/", 1)[1] for p, _ in set_.imgs] == ["b.PNG", "a.png", "a.png"]
    pictures, labels = next(iter(DataLoader(set_, batch_size=3, num_workers=n)))
    assert pictures.shape == (3, 3, 4, 4) and labels.tolist() == [0, 0, 1]
    np.testing.assert_allclose(np.asarray(pictures)[:, 0, 0, 0], np.float32([20, 30, 10]) / 255, rtol=1e-6)
    (root / "bird").mkdir()
    with pytest.raises(OSError, match="no files .*in bird"):
        datasets.ImageFolder(root)
    assert datasets.ImageFolder(root, allow_empty=True).classes == ["bird", "cat", "dog"]
    with pytest.raises(OSError, match="cannot list"):
        datasets.ImageFolder(root / "nowhere")
    with pytest.raises(OSError, match="no folder for a class"):
        datasets.ImageFolder(root / "dog")
    other = datasets.DatasetFolder(root, lambda path: len(path), (".txt",), allow_empty=True)
    assert len(other) == 1 and other[0][1] == 1


@needs_images
def test_captions(tmp_path):
    root = folder(tmp_path)
    told = {
        "images": [{"id": 7, "file_name": "dog/a.png"}, {"id": 3, "file_name": "cat/b.PNG"}],
        "annotations": [{"image_id": 7, "caption": "a dog"}, {"image_id": 3, "caption": "a cat"}, {"image_id": 7, "caption": "dark"}],
    }
    (tmp_path / "a.json").write_text(json.dumps(told))
    set_ = datasets.CocoCaptions(root, tmp_path / "a.json", target_transform=" and ".join)
    assert len(set_) == 2 and set_[1][1] == "a dog and dark" and set_[0][0].shape == (4, 2, 3)
    (tmp_path / "a.json").write_text("[]")
    with pytest.raises(tw.FormatError, match="no annotations"):
        datasets.CocoCaptions(root, tmp_path / "a.json")


def test_mnist(tmp_path):
    raw = tmp_path / "FashionMNIST" / "raw"
    raw.mkdir(parents=True)
    pictures = np.arange(3 * 784, dtype="u4").astype("u1").reshape(3, 28, 28)
    (raw / "train-images-idx3-ubyte").write_bytes(idx(pictures))
    (raw / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(np.array([9, 0, 4], "u1"))))
    set_ = datasets.FashionMNIST(tmp_path, transform=transforms.ToTensor(), target_transform=lambda y: y + 1)
    assert len(set_) == 3 and set_[0][1] == 10 and set_.classes[9] == "Ankle boot" and set_.class_to_idx["Bag"] == 8
    assert set_[1][0].shape == (1, 28, 28) and set_.data.shape == (3, 28, 28) and set_.targets.tolist() == [9, 0, 4]
    np.testing.assert_allclose(np.asarray(set_[2][0])[0], pictures[2] / 255, rtol=1e-6)
    with pytest.raises(OSError, match=r"t10k-images-idx3-ubyte.*nothing is downloaded(.|\n)*raw(.|\n)*zalando"):
        datasets.FashionMNIST(tmp_path, train=False)
    with pytest.raises(OSError, match="MNIST: train-images"):
        datasets.MNIST(tmp_path / "other")
    with pytest.raises(ValueError, match="nothing is downloaded"):
        datasets.MNIST(tmp_path, download=True)
    (raw / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(np.array([9, 0], "u1"))))
    with pytest.raises(tw.FormatError, match="do not fit"):
        datasets.FashionMNIST(tmp_path)


def test_cifar(tmp_path):
    rows = np.random.default_rng(0).integers(256, size=(2, 3072), dtype="u1")
    batches, binary = tmp_path / "a" / "cifar-10-batches-py", tmp_path / "b" / "cifar-10-batches-bin"
    batches.mkdir(parents=True)
    binary.mkdir(parents=True)
    for i in range(1, 6):
        # As Python 2 wrote it: keys and bytes as its strings.
        (batches / f"data_batch_{i}").write_bytes(pickle.dumps({b"data": rows, b"labels": [i, 2]}, protocol=2))
        (binary / f"data_batch_{i}.bin").write_bytes(b"".join(bytes([label]) + row.tobytes() for label, row in zip([i, 2], rows)))
    for root in ("a", "b"):
        set_ = datasets.CIFAR10(tmp_path / root)
        assert len(set_) == 10 and set_.targets[:4] == [1, 2, 2, 2] and set_.classes[1] == "automobile"
        picture, label = set_[8]
        assert label == 5 and picture.shape == (32, 32, 3) and picture[3, 5].tolist() == rows[0].reshape(3, 32, 32)[:, 3, 5].tolist()
    with pytest.raises(OSError, match="CIFAR10: test_batch not found"):
        datasets.CIFAR10(tmp_path / "a", train=False)
    (batches / "test_batch").write_bytes(pickle.dumps({b"data": datasets.MNIST}, protocol=2))
    with pytest.raises(tw.FormatError, match="talweg.data.datasets.MNIST"):
        datasets.CIFAR10(tmp_path / "a", train=False)
    (binary / "test_batch.bin").write_bytes(b"x" * 100)
    with pytest.raises(tw.FormatError, match="100 bytes"):
        datasets.CIFAR10(tmp_path / "b", train=False)
    hundred = tmp_path / "c" / "cifar-100-python"
    hundred.mkdir(parents=True)
    (hundred / "train").write_bytes(pickle.dumps({b"data": rows, b"fine_labels": [99, 0], b"coarse_labels": [1, 2]}, protocol=2))
    assert datasets.CIFAR100(tmp_path / "c").targets == [99, 0]


def test_augmentation_is_that_of_rust():
    pictures, labels = tw.utils.data.digits(3, seed=1)
    steps = data.Augment().crop(28, 28, 2).flip(0.5).normalize([0.5], [0.25])
    one = steps(pictures[0], seed=7)
    assert one.shape == (1, 28, 28) and one.dtype == tw.float32
    assert one.tolist() == steps(pictures[0], seed=7, epoch=0, index=0).tolist() != steps(pictures[0], seed=7, epoch=1).tolist()
    assert abs(one.sum().item() + 1433.553) < 1e-2  # crates/data/src/augment.rs has the same number
    set_ = steps.on(tw.utils.data.TensorDataset(pictures, labels), seed=7)
    assert set_[0][0].tolist() == one.tolist() and len(set_) == 3
    set_.set_epoch(1)
    assert set_[0][0].tolist() == steps(pictures[0], 7, 1, 0).tolist()
    color = np.random.default_rng(0).integers(256, size=(6, 8, 3), dtype="u1")
    assert data.Augment().resize(3, 4).jitter(0.2, 0.2, 0.2)(color).shape == (3, 4, 3)
    assert data.Augment().center(2, 2)(color).tolist() == color[2:4, 3:5].tolist()
    with pytest.raises(ValueError, match="cannot crop"):
        data.Augment().crop(20, 20)(color)
    for wrong in [data.Augment().resize(10**9, 10**9), data.Augment().crop(1, 1, 10**18), data.Augment().center(-1, 3)]:
        with pytest.raises(ValueError, match="sizes are"):
            wrong(color)
    with pytest.raises(ValueError, match="last step"):
        data.Augment().normalize([0.5] * 3, [1.0] * 3).flip()(color)
    with pytest.raises(ValueError, match="uint8"):
        data.Augment().flip()(np.zeros((2, 2)))

