"""Files: what is saved comes back, PyTorch's files are read without running their pickle, and broken or hostile ones
are refused."""

import io
import os
import pickle
import struct
import zipfile
from collections import OrderedDict
from pathlib import Path

import numpy as np
import pytest

import talweg as tw

DATA = Path(__file__).parent / "data"  # written by PyTorch: scripts/torch_files.py


def told(x):
    """A value with its types."""
    if isinstance(x, tw.Tensor):
        return "tensor", x.dtype.name, tuple(x.shape), x.tolist(), x.requires_grad
    if isinstance(x, (np.ndarray, np.generic)):
        return type(x).__name__, x.dtype.str, x.tolist()
    if isinstance(x, dict):
        return type(x).__name__, [(k, told(v)) for k, v in x.items()]
    if isinstance(x, (list, tuple)):
        return type(x).__name__, [told(v) for v in x]
    return type(x).__name__, x if not isinstance(x, tw.device) else None


def everything():
    kinds = ["bool", "uint8", "int8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "bfloat16"]
    kinds += ["float32", "float64", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2"]
    return {
        "kinds": {k: tw.tensor([[0, 1], [1, 0]]).to(k) for k in kinds},
        "shapes": [tw.tensor(2.5), tw.zeros(0), tw.zeros(2, 0, 3), tw.arange(6).reshape(2, 3).T],
        "plain": [None, True, False, 0, -1, 2**40, -(2**80), 1e300, float("inf"), "", "é\n", 2 - 3j, b"", b"\x00\xff"],
        "nested": OrderedDict(a=(1, (2, [3])), b={}, c=[]),
        "numpy": [np.arange(3, dtype=">i2"), np.ones((2, 2), order="F"), np.float32(1.5), np.int8(3), np.bool_(True)],
        "types": [tw.float32, tw.bfloat16, tw.device("cpu")],
        "sets": [{1, "a"}, frozenset([2])],
        3: "a number as key",
        None: 1,
    }


@pytest.mark.parametrize("ending", [".pt", ".safetensors", "", "file"])
def test_everything_comes_back(tmp_path, ending):
    state = everything()
    if ending == ".safetensors":
        state["numpy"][0] = state["numpy"][0].astype("<i2")
    if ending == "file":
        f = io.BytesIO()
        tw.save(state, f)
        f.seek(0)
        found = tw.load(f)
    else:
        tw.save(state, tmp_path / f"state{ending}")
        found = tw.load(tmp_path / f"state{ending}")
    for key in state:
        assert told(found[key]) == told(state[key]), key
    assert list(found) == list(state)
    assert os.listdir(tmp_path) == ([f"state{ending}"] if ending != "file" else [])


def test_states_of_training_come_back(tmp_path):
    model = tw.nn.Sequential(tw.nn.Linear(3, 4), tw.nn.BatchNorm1d(4))
    optimizer = tw.optim.AdamW(model.parameters())
    model(tw.rand(5, 3)).sum().backward()
    optimizer.step()
    for name in ["a.pth", "a.safetensors"]:
        tw.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "epoch": 7}, tmp_path / name)
        found = tw.load(tmp_path / name, map_location="cpu")
        other = tw.nn.Sequential(tw.nn.Linear(3, 4), tw.nn.BatchNorm1d(4))
        other.load_state_dict(found["model"])
        again = tw.optim.AdamW(other.parameters())
        again.load_state_dict(found["optimizer"])
        assert told(dict(other.state_dict())) == told(dict(model.state_dict()))
        assert told(again.state_dict()["state"]) == told(optimizer.state_dict()["state"])
    w = tw.nn.Parameter(tw.ones(2))
    tw.save({"a": w, "b": w, "frozen": tw.nn.Parameter(tw.ones(1), requires_grad=False)}, tmp_path / "p.pt")
    found = tw.load(tmp_path / "p.pt")
    assert found["a"] is found["b"] and isinstance(found["a"], tw.nn.Parameter) and found["a"].requires_grad
    assert isinstance(found["frozen"], tw.nn.Parameter) and not found["frozen"].requires_grad


def test_numpy_files(tmp_path):
    tw.save({"a": tw.ones(2, 3), "b": np.arange(3)}, tmp_path / "a.npz")
    with np.load(tmp_path / "a.npz") as f:
        assert {k: f[k].tolist() for k in f} == {"a": [[1.0] * 3] * 2, "b": [0, 1, 2]}
    np.savez_compressed(tmp_path / "b.npz", x=np.zeros(10000), words=np.array(["a", "bc"]))
    found = tw.load(tmp_path / "b.npz")
    assert found["x"].shape == (10000,) and found["x"].dtype == tw.float64 and found["words"].tolist() == ["a", "bc"]
    tw.save(tw.arange(4).reshape(2, 2), tmp_path / "c.npy")
    assert np.load(tmp_path / "c.npy").tolist() == [[0, 1], [2, 3]]
    np.save(tmp_path / "d.npy", np.asfortranarray(np.arange(6.0, dtype=">f4").reshape(2, 3)))
    for mmap in (None, True):
        assert tw.load(tmp_path / "d.npy", mmap=mmap).tolist() == [[0, 1, 2], [3, 4, 5]]
        assert tw.load(tmp_path / "c.npy", mmap=mmap).tolist() == [[0, 1], [2, 3]]
    tw.save([tw.ones(1), 2.5], tmp_path / "e.npz")
    assert {k: v.tolist() for k, v in tw.load(tmp_path / "e.npz").items()} == {"arr_0": [1.0], "arr_1": 2.5}
    np.save(tmp_path / "f.npy", np.array([object()]), allow_pickle=True)
    with pytest.raises(tw.FormatError, match="objects would have to be unpickled"):
        tw.load(tmp_path / "f.npy")
    with pytest.raises(TypeError, match="NumPy has no type bfloat16"):
        tw.save(tw.ones(1).bfloat16(), tmp_path / "g.npy")
    with pytest.raises(TypeError, match="hold tensors, arrays and numbers"):
        tw.save({"a": object()}, tmp_path / "g.npz")
    assert not (tmp_path / "g.npz").exists()


def test_files_that_pytorch_wrote():
    found = tw.load(DATA / "state.pt")
    model = found["model"]
    assert isinstance(model, OrderedDict) and model["w"] is model["head"] and isinstance(model["w"], tw.nn.Parameter)
    assert model["w"].tolist() == [1.5, -2.5] and model["t"].tolist() == [[0, 3], [1, 4], [2, 5]]
    assert model["row"].tolist() == [3, 4, 5] and model["e"].tolist() == [[1, 1], [1, 1]]
    assert len(found["kinds"]) == 13
    for name, t in found["kinds"].items():
        assert t.dtype.name == name and t.tolist() == ([False, True, True] if name == "bool" else [0, 1, 3]), name
    assert found["optimizer"]["state"][0]["step"].item() == 3
    assert found["optimizer"]["param_groups"] == [{"lr": 0.1, "betas": (0.9, 0.999), "params": [0]}]
    assert found["rest"][:10] == [None, True, -(2**70), 2.5, "é", b"\x00\xff", {1}, 1j, (2, 3), tw.float16]
    old = tw.load(DATA / "old.pth")
    assert old["w"].tolist() == [[0, 1, 2], [3, 4, 5]] and old["row"].tolist() == [3, 4, 5]
    assert old["half"].dtype == tw.bfloat16 and old["half"].tolist() == old["w"].tolist() and old["n"] == 3
    with open(DATA / "state.pt", "rb") as f:
        assert told(tw.load(f)) == told(found)
    assert told(tw.load(DATA / "state.pt", mmap=True)) == told(found)
    for weights_only in (True, False):
        with pytest.raises(tw.FormatError, match=r"torch.nn.modules.linear.Linear.*save model.state_dict\(\).*test_files.py"):
            tw.load(DATA / "module.pt", weights_only=weights_only)


def test_where_tensors_go(tmp_path):
    path = tmp_path / "a.pt"
    tw.save({"a": tw.ones(2)}, path)
    raw = path.read_bytes()
    path.write_bytes(_archive(_records(raw)["data.pkl"].replace(b"X\x03\x00\x00\x00cpu", b"X\x06\x00\x00\x00cuda:7"), _records(raw)["data/0"]))
    for where in ["cpu", tw.device("cpu"), {"cuda:7": "cpu"}, lambda storage, location: storage, lambda s, location: s.cpu()]:
        assert tw.load(path, map_location=where)["a"].tolist() == [1, 1]
    with pytest.raises(tw.DeviceError, match="cuda:7.*map_location='cpu'"):
        tw.load(path)
    with pytest.raises(tw.DeviceError, match="cuda:9"):
        tw.load(path, map_location=lambda s, location: s.cuda(9))


def _records(raw):
    with zipfile.ZipFile(io.BytesIO(raw)) as z:
        return {n.split("/", 1)[1]: z.read(n) for n in z.namelist()}


def _archive(pickled, *storages, compression=zipfile.ZIP_STORED, **more):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as z:
        z.writestr("x/data.pkl", pickled)
        for i, s in enumerate(storages):
            z.writestr(f"x/data/{i}", s)
        for name, content in more.items():
            z.writestr(f"x/{name}", content)
    return out.getvalue()


def text(s):
    return b"X" + struct.pack("<I", len(s)) + s.encode()


def number(n):
    data = n.to_bytes(n.bit_length() // 8 + 1, "little", signed=True)
    return b"\x8a" + bytes([len(data)]) + data


def tensor(count=2, offset=0, size=(2,), stride=(1,), kind="FloatStorage", key="0"):
    """The pickle of a tensor that says what it likes of its storage."""
    parts = b"".join(number(n) for n in size), b"".join(number(n) for n in stride)
    storage = b"(" + text("storage") + f"ctorch\n{kind}\n".encode() + text(key) + text("cpu") + number(count) + b"tQ"
    made = b"ctorch._utils\n_rebuild_tensor_v2\n(" + storage + number(offset) + b"(" + parts[0] + b"t(" + parts[1] + b"t"
    return b"\x80\x02" + made + b"\x89NtR."


EIGHT = b"\x00\x00\x80?\x00\x00\x00@"  # 1 and 2


class Evil:
    """A pickle that runs a command."""

    def __reduce__(self):
        return os.system, ("touch /tmp/talweg-was-here",)


HOSTILE = {
    "a command": (pickle.dumps({"x": Evil()}, protocol=2), "posix.system"),
    "a command by newer opcodes": (pickle.dumps([Evil()], protocol=5), "posix.system"),
    "eval": (b"\x80\x02c__builtin__\neval\n(" + text("1") + b"tR.", "__builtin__.eval"),
    "getattr": (b"\x80\x02cbuiltins\ngetattr\n(ctorch\nTensor\n" + text("x") + b"tR.", "builtins.getattr"),
    "an inner name": (b"\x80\x04\x8c\x0bcollections\x8c\x1bOrderedDict.__init_subclass\x93.", "OrderedDict.__init_subclass"),
    "a call of a class": (b"\x80\x02ctorch\nTensor\n)R.", "calls torch.Tensor"),
    "a call of a number": (b"\x80\x02K\x01)R.", "calls int"),
    "a call of a string": (b"\x80\x02" + text("os.system") + b")R.", "calls str"),
    "inst": (b"(ios\nsystem\n.", "no opcode"),
    "a state for a dict": (b"\x80\x02}}" + text("a") + b"K\x01sb.", "gives a state to dict"),
    "no end": (b"\x80\x02}", "cut short"),
    "nothing": (b"", "cut short"),
    "an empty stack": (b"\x80\x02.", "more values than there are"),
    "a length beyond the end": (b"\x80\x02X\xff\xff\xff\xff.", "cut short"),
    "a long length": (b"\x80\x04\x8e" + b"\xff" * 8 + b".", "cut short"),
    "a negative length": (b"\x80\x02\x8b\xff\xff\xff\xff.", "cut short"),
    "no such memo": (b"\x80\x02h\x09.", "value 9"),
    "no mark": (b"\x80\x02t.", "no mark"),
    "an odd dict": (b"\x80\x02}(K\x01u.", "sets items"),
    "an item of a number": (b"\x80\x02K\x01K\x02a.", "appends to int"),
    "a key that is a list": (b"\x80\x02}]K\x01s.", "unhashable"),
    "a list in itself": (b"\x80\x02]q\x00h\x00a.", "contains itself"),
    "a dict in itself": (b"\x80\x02}q\x00K\x01h\x00s.", "contains itself"),
    "deep lists": (b"\x80\x02" + b"]" * 100_000 + b"a" * 99_999 + b".", "nested more than"),
    "deep tuples": (b"\x80\x02)" + b"\x85" * 100_000 + b".", "nested more than"),
    "digits": (b"I" + b"9" * 6000 + b"\n.", "broken|cut short"),
    "a storage that is missing": (tensor(key="7"), "no record x/data/7"),
    "a storage outside": (tensor(key="../../../etc/passwd"), "no record"),
    "another count": (tensor(count=3), "has 8 bytes, not 12"),
    "a count beyond all": (tensor(count=2**61), "has 8 bytes"),
    "a size beyond the storage": (tensor(size=(3,)), "reaches to element 2 of a storage of 2"),
    "an offset beyond it": (tensor(offset=1), "reaches to element 2"),
    "a huge offset": (tensor(offset=2**61), "reaches to element"),
    "a negative offset": (tensor(offset=-1), "offset -1"),
    "a negative stride": (tensor(stride=(-1,)), "stride -1"),
    "a negative size": (tensor(size=(-2,)), "size -2"),
    "a huge stride": (tensor(size=(2,), stride=(2**61,)), "reaches to element"),
    "other strides": (tensor(stride=(1, 1)), "1 dimensions has 2 strides"),
    "too many dimensions": (tensor(size=(1,) * 65, stride=(1,) * 65), "size"),
    "an expanded giant": (tensor(size=(2**40,), stride=(0,)), "far more memory"),
    "no storage": (tensor(kind="QInt8Storage"), "torch.QInt8Storage"),
    "a size of text": (tensor().replace(number(2) + b"t(", text("2") + b"t("), "size '2'"),
    "a numpy object array": (b"\x80\x02cnumpy\ndtype\n(" + text("O8") + b"\x89\x88tR.", "NumPy type 'O8'"),
    "bytes of a length": (b"\x80\x02c__builtin__\nbytearray\n(" + number(2**40) + b"tR.", "length alone"),
    "a tensor by a device": (b"\x80\x02ctorch._tensor\n_rebuild_from_type_v2\n(ctorch\ndevice\n(" + text("cpu") + b"tRctorch\nTensor\n)}tR.", "no function of PyTorch's"),
    "a default that is code": (b"\x80\x02ccollections\ndefaultdict\n(c_codecs\nencode\ntR.", "default is a function"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_pickles_are_refused(name):
    pickled, text = HOSTILE[name]
    with pytest.raises(tw.FormatError, match=text):
        tw.load(io.BytesIO(_archive(pickled, EIGHT)))
    assert not os.path.exists("/tmp/talweg-was-here")


def test_the_plain_tensor_of_those_is_read():
    assert tw.load(io.BytesIO(_archive(tensor(), EIGHT))).tolist() == [1, 2]
    swapped = EIGHT[:4][::-1] + EIGHT[4:][::-1]
    assert tw.load(io.BytesIO(_archive(tensor(), swapped, byteorder=b"big"))).tolist() == [1, 2]
    assert tw.load(io.BytesIO(_archive(tensor(count=1, size=(3,), stride=(0,)), EIGHT[:4]))).tolist() == [1, 1, 1]


def overlapping():
    raw = bytearray(_archive(tensor(), EIGHT, more=b"12345678"))
    entries = [i for i in range(len(raw)) if raw[i : i + 4] == b"PK\x01\x02"]
    raw[entries[2] + 42 : entries[2] + 46] = raw[entries[1] + 42 : entries[1] + 46]
    return bytes(raw)


def damaged():
    raw = bytearray(_archive(tensor(), EIGHT))
    at = raw.find(EIGHT)
    raw[at] ^= 1
    return bytes(raw)


ARCHIVES = {
    "compressed": (lambda: _archive(tensor(), bytes(1 << 20), compression=zipfile.ZIP_DEFLATED), "compressed"),
    "overlapping": (overlapping, "overlap|is not where"),
    "damaged": (damaged, "checksum"),
    "without a pickle": (lambda: _archive(b"").replace(b"data.pkl", b"data.pkx"), "no data.pkl"),
    "TorchScript": (lambda: _archive(tensor(), EIGHT, **{"constants.pkl": b"."}), "TorchScript"),
    "another byte order": (lambda: _archive(tensor(), EIGHT, byteorder=b"middle"), "byte order"),
    "a pickle alone": (lambda: pickle.dumps({"x": 1}), "a pickle of Python's own"),
    "nothing": (lambda: b"", None),
    "text": (lambda: b"hello, this is no tensor", None),
}


@pytest.mark.parametrize("name", ARCHIVES)
def test_hostile_archives_are_refused(name, tmp_path):
    make, text = ARCHIVES[name]
    with pytest.raises(tw.FormatError, match=text):
        tw.load(io.BytesIO(make()))
    (tmp_path / "f.pt").write_bytes(make())
    with pytest.raises(tw.FormatError, match=text):
        tw.load(tmp_path / "f.pt")


@pytest.mark.parametrize("name", ["state.pt", "old.pth"])
def test_files_cut_or_changed_anywhere(name):
    """No cut and no changed byte does anything but raise a FormatError, or give some value."""
    whole = (DATA / name).read_bytes()
    for end in [*range(0, 400, 7), *range(400, len(whole) - 1, 97)]:
        with pytest.raises(tw.FormatError):
            tw.load(io.BytesIO(whole[:end]))
    draw = np.random.default_rng(1)
    refused = 0
    for _ in range(600):
        changed = bytearray(whole)
        for at in draw.integers(len(whole), size=draw.integers(1, 4)):
            changed[at] = draw.integers(256)
        try:
            tw.load(io.BytesIO(bytes(changed)), map_location="cpu")
        except tw.FormatError:
            refused += 1
    assert refused > 100


def test_pickles_changed_anywhere():
    """The same of the pickle alone, in archives that are whole."""
    records = _records((DATA / "state.pt").read_bytes())
    storages = [records[f"data/{i}"] for i in range(sum(name.startswith("data/") for name in records))]
    draw = np.random.default_rng(2)
    refused = 0
    for _ in range(500):
        changed = bytearray(records["data.pkl"])
        for _ in range(draw.integers(1, 5)):
            at, other = draw.integers(len(changed), size=2)
            new = [draw.bytes(draw.integers(1, 6)), bytes(changed[other : other + 8]), b""][draw.integers(3)]
            changed[at : at + draw.integers(0, 8)] = new
        try:
            tw.load(io.BytesIO(_archive(bytes(changed), *storages)), map_location="cpu")
        except tw.FormatError:
            refused += 1
    assert refused > 400


def npy(header, data=b""):
    text = header.encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def npz(content, compression=zipfile.ZIP_DEFLATED):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", compression) as z:
        z.writestr("a.npy", content)
    return bytearray(out.getvalue())


def bomb():
    """An archive that says that 20 KB hold 8 GiB."""
    raw = npz(npy("{'descr': '<f8', 'fortran_order': False, 'shape': (2000000,)}", bytes(16_000_000)))
    for at in [raw.find(b"PK\x03\x04") + 22, raw.find(b"PK\x01\x02") + 24]:
        raw[at : at + 4] = struct.pack("<I", 0xFFFFFF00)
    return bytes(raw)


@pytest.mark.parametrize(
    "content",
    [
        npy("{'descr': '<f8', 'fortran_order': False, 'shape': (9000000000000,)}"),
        npy("{'descr': '<f8', 'fortran_order': False, 'shape': (-1,)}"),
        npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}", bytes(8)),
        npy("__import__('os').system('touch /tmp/talweg-was-here')"),
        npy("{'descr': '<f8'"),
        b"\x93NUMPY\x09\x00" + bytes(20),
        b"\x93NUMPY",
        bytes(npz(b"no array")),
        bytes(npz(npy("{'descr': '<f8', 'fortran_order': False, 'shape': (2,)}", bytes(16)), zipfile.ZIP_LZMA)),
        bytes(npz(npy("{'descr': '<f8', 'fortran_order': False, 'shape': (2,)}", bytes(15)))),
        bomb(),
    ],
)
def test_hostile_numpy_files_are_refused(content):
    with pytest.raises(tw.FormatError):
        tw.load(io.BytesIO(content))
    assert not os.path.exists("/tmp/talweg-was-here")


def test_what_cannot_be_saved_is_told(tmp_path):
    class Own:
        pass

    for name in ["a.pt", "a.safetensors"]:
        with pytest.raises(TypeError, match="a.0 is Own; a file holds"):
            tw.save({"a": [Own()]}, tmp_path / name)
        with pytest.raises(TypeError, match=r"is Linear: save its state_dict\(\)"):
            tw.save(tw.nn.Linear(1, 1), tmp_path / name)
    loop = []
    loop.append(loop)
    with pytest.raises(ValueError, match="contains itself"):
        tw.save({"a": (loop,)}, tmp_path / "a.pt")
    with pytest.raises(OSError, match="cannot write"):
        tw.save({}, tmp_path / "no" / "a.pt")
    with pytest.raises(OSError, match="cannot read"):
        tw.load(tmp_path / "missing.pt")
    with pytest.raises(ValueError, match="mmap=True needs the path"):
        tw.load(io.BytesIO(b""), mmap=True)
    with pytest.raises(TypeError, match="open it with 'rb'"):
        tw.load(io.StringIO("text"))
    assert os.listdir(tmp_path) == []


def test_a_file_is_replaced_whole(tmp_path):
    path = tmp_path / "a.pt"
    tw.save({"a": tw.ones(2)}, path)
    before = path.read_bytes()

    class Odd:
        pass

    with pytest.raises(TypeError):
        tw.save({"a": tw.zeros(2), "b": Odd()}, path)
    assert path.read_bytes() == before and os.listdir(tmp_path) == ["a.pt"]
    # A tensor that is mapped keeps the file that it was read from.
    mapped = tw.load(path, mmap=True)["a"]
    tw.save({"a": tw.zeros(2)}, path)
    assert mapped.tolist() == [1, 1] and tw.load(path)["a"].tolist() == [0, 0]


def test_safetensors_from_a_file_object(tmp_path):
    tw.save({"a": tw.ones(2)}, tmp_path / "a.safetensors")
    with open(tmp_path / "a.safetensors", "rb") as f:
        assert tw.load(f)["a"].tolist() == [1, 1]


def test_memory_of_others(tmp_path):
    x = np.arange(4, dtype="f4")
    t = tw.frombuffer(x, dtype=tw.float32)
    x[0] = 7
    assert t.tolist() == [7, 1, 2, 3]
    assert tw.frombuffer(x.tobytes(), dtype="float32", count=2, offset=4).tolist() == [1, 2]
    assert tw.frombuffer(b"\x80\x3f\x00\x40", dtype=tw.bfloat16).tolist() == [1, 2]
    assert tw.frombuffer(b"\x00\x02", dtype=tw.bool).tolist() == [False, True]
    assert tw.frombuffer(x, dtype=tw.float32, requires_grad=True).requires_grad
    for settings, text in [({"offset": 16}, "outside"), ({"offset": 1}, "multiple"), ({"count": 5}, "more than"), ({"count": 0}, "positive")]:
        with pytest.raises(ValueError, match=text):
            tw.frombuffer(x, dtype=tw.float32, **settings)
    with pytest.raises(ValueError, match="empty"):
        tw.frombuffer(b"", dtype=tw.uint8)
    (tmp_path / "f").write_bytes(x.tobytes())
    assert tw.from_file(tmp_path / "f", size=3).tolist() == [7, 1, 2]
    assert tw.from_file(str(tmp_path / "f"), False, 2, dtype=tw.int32).shape == (2,)
    with pytest.raises(ValueError, match="more than"):
        tw.from_file(tmp_path / "f", size=5)
    with pytest.raises(ValueError, match="does not write"):
        tw.from_file(tmp_path / "f", shared=True, size=2)
    with pytest.raises(OSError):
        tw.from_file(tmp_path / "missing", size=1)
