"""Files beside PyTorch: what one writes the other reads."""

import io

import numpy as np
import pytest

import talweg as tw

torch = pytest.importorskip("torch")

KINDS = "bool uint8 int8 int16 uint16 int32 uint32 int64 uint64 float16 bfloat16 float32 float64 complex64 complex128 float8_e4m3fn float8_e5m2".split()


@pytest.mark.parametrize("is_zip", [True, False])
def test_talweg_reads_what_pytorch_writes(tmp_path, is_zip):
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.LSTM(4, 2))
    optimizer = torch.optim.Adam(model.parameters())
    model[1](model[0](torch.rand(5, 3))).sum().backward()
    optimizer.step()
    kinds = {k: torch.tensor([[0, 1], [1, 0]]).to(getattr(torch, k)) for k in KINDS if is_zip or k not in ("uint16", "uint32", "uint64") and "float8" not in k}
    strided = {"t": torch.arange(6).reshape(2, 3).t(), "s": torch.arange(10)[2:9:3], "e": torch.ones(1).expand(3), "0": torch.zeros(0, 2)}
    state = {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "kinds": kinds, "strided": strided, "np": np.arange(3.0)}
    path = tmp_path / "a.pt"
    for protocol in (2, 4, 5):
        torch.save(state, path, _use_new_zipfile_serialization=is_zip, pickle_protocol=protocol)
        found = tw.load(path)
        for name, t in model.state_dict().items():
            assert found["model"][name].tolist() == t.tolist()
        assert found["optimizer"]["param_groups"] == optimizer.state_dict()["param_groups"]
        assert {k: (v.dtype.name, v.tolist()) for k, v in found["kinds"].items()} == {k: (k, v.tolist()) for k, v in kinds.items()}
        assert {k: (tuple(v.shape), v.tolist()) for k, v in found["strided"].items()} == {k: (tuple(v.shape), v.tolist()) for k, v in strided.items()}
        assert found["np"].tolist() == [0, 1, 2]
    other = tw.nn.Sequential(tw.nn.Linear(3, 4), tw.nn.BatchNorm1d(4), tw.nn.LSTM(4, 2))
    other.load_state_dict(found["model"])


def test_pytorch_reads_what_talweg_writes(tmp_path):
    model = tw.nn.Sequential(tw.nn.Linear(3, 4), tw.nn.BatchNorm1d(4))
    optimizer = tw.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(tw.rand(5, 3)).sum().backward()
    optimizer.step()
    kinds = {k: tw.tensor([[0, 1], [1, 0]]).to(k) for k in KINDS}
    rest = [None, True, 3, 2**70, 2.5, "é", b"\x00\xff", {1}, (1, [2]), 1j, tw.float16]
    tw.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "kinds": kinds, "rest": rest, "p": tw.nn.Parameter(tw.ones(2))}, tmp_path / "a.pt")
    for mmap in (None, True):
        found = torch.load(tmp_path / "a.pt", weights_only=True, mmap=mmap)
        torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4)).load_state_dict(found["model"])
        assert {k: v.tolist() for k, v in found["model"].items()} == {k: v.tolist() for k, v in model.state_dict().items()}
        assert {k: (str(v.dtype), v.tolist()) for k, v in found["kinds"].items()} == {k: (f"torch.{k}", v.tolist()) for k, v in kinds.items()}
        assert found["rest"] == [*rest[:-1], torch.float16]
        assert isinstance(found["p"], torch.nn.Parameter) and found["p"].requires_grad
    f = io.BytesIO()
    tw.save(tw.ones(2), f)
    f.seek(0)
    assert torch.load(f).tolist() == [1, 1]


def test_datasets_and_samplers_do_what_pytorch_s_do():
    from torch.utils import data as theirs

    ours = tw.utils.data
    for n, replicas, drop_last in [(10, 3, False), (10, 3, True), (2, 5, False), (9, 3, False)]:
        for rank in range(replicas):
            settings = {"num_replicas": replicas, "rank": rank, "shuffle": False, "drop_last": drop_last}
            assert list(ours.DistributedSampler(range(n), **settings)) == list(theirs.DistributedSampler(range(n), **settings))
    for fractions in ([0.5, 0.25, 0.25], [1 / 3] * 3, [0.8, 0.2]):
        assert [len(p) for p in ours.random_split(range(10), fractions)] == [len(p) for p in theirs.random_split(range(10), fractions)]
    batch = [(1, 2.0, np.float32(1), "a", {"x": [1, 2]}), (2, 3.0, np.float32(2), "b", {"x": [3, 4]})]
    a, b = ours.default_collate(batch), theirs.default_collate(batch)
    assert type(a) is type(b) and [str(t.dtype).split(".")[1] for t in a[:3]] == [str(t.dtype).split(".")[1] for t in b[:3]]
    assert type(a[3]) is type(b[3]) and [t.tolist() for t in a[4]["x"]] == [t.tolist() for t in b[4]["x"]]
    import inspect

    for name in theirs.__all__:
        if hasattr(ours, name) and inspect.isclass(getattr(theirs, name)) and name not in ("Sampler",):
            wanted = list(inspect.signature(getattr(theirs, name)).parameters)
            assert list(inspect.signature(getattr(ours, name)).parameters) == wanted, name


def test_scaling_is_pytorch_s():
    from talweg.data.filters import resized

    x = np.random.default_rng(1).random((3, 13, 17), dtype="float32")
    for mode in ("bilinear", "bicubic", "nearest"):
        for antialias in (True, False) if mode != "nearest" else (False,):
            for size in [(5, 4), (20, 31), (13, 9), (40, 6)]:
                theirs = torch.nn.functional.interpolate(torch.tensor(x)[None], size, mode=mode, antialias=antialias)[0].numpy()
                np.testing.assert_allclose(resized(x, *size, mode, antialias), theirs, atol=2e-6, err_msg=f"{mode} {antialias} {size}")
