"""Tensors: creation, types, operators, indexing, exchange with other libraries."""

import copy
import pickle
import threading

import numpy as np
import pytest

import talweg as tw


def same(t, expected):
    expected = np.asarray(expected)
    assert t.shape == expected.shape
    np.testing.assert_allclose(np.asarray(t), expected, rtol=1e-6, atol=1e-6)


def test_types_of_data():
    assert tw.tensor([1, 2]).dtype == tw.int64
    assert tw.tensor([1.0, 2]).dtype == tw.float32
    assert tw.tensor([True, False]).dtype == tw.bool
    assert tw.tensor(np.zeros(2)).dtype == tw.float64
    assert tw.tensor([1, 2], dtype="float16").dtype == tw.float16
    assert tw.tensor(np.float32(2)).dtype == tw.float32
    assert tw.zeros(2, 3, dtype=np.int32).shape == (2, 3)
    assert tw.zeros((2, 3)).size == 6 and len(tw.zeros(4, 2)) == 4
    assert tw.dtype(float) is not None and tw.float32.name == "float32"


@pytest.mark.parametrize("kind", ["?", "b", "B", "h", "H", "i", "I", "q", "e", "f", "d"])
def test_numpy_types(kind):
    a = np.array([[0, 1], [1, 0]], dtype=kind)
    same(tw.tensor(a), a.astype("f8"))
    same(tw.tensor(a.T), a.T.astype("f8"))
    same(tw.tensor(a[:, ::-1]), a[:, ::-1].astype("f8"))


def test_what_no_tensor_can_be_made_of():
    for bad in [[[1, 2], [3]], [1, [2]], [[1], 2]]:
        with pytest.raises(ValueError):
            tw.tensor(bad)
    for bad in ["text", object(), [object()], b"bytes", {}, np.array(["a"]), np.array([None])]:
        with pytest.raises(TypeError):
            tw.tensor(bad)
    itself = []
    itself.append(itself)
    with pytest.raises(ValueError):
        tw.tensor(itself)
    with pytest.raises((OverflowError, ValueError)):
        tw.tensor([2**80])


def test_operators():
    a, n = tw.tensor([1.0, 2.0, 3.0]), np.array([1.0, 2.0, 3.0], dtype="f4")
    for f in [
        lambda x: x + 1,
        lambda x: 1 - x,
        lambda x: 2 / x,
        lambda x: x**2,
        lambda x: 2.0**x,
        lambda x: x // 2,
        lambda x: x % 2,
        lambda x: -x,
        lambda x: abs(-x),
        lambda x: x @ x,
        lambda x: x + n,
        lambda x: n * x,
        lambda x: (x > 1) & (x < 3),
        lambda x: x == 2,
        lambda x: x != 2,
        lambda x: ~(x > 1),
    ]:
        same(f(a), np.asarray(f(n)))
    assert (a + np.float64(1)).dtype in (tw.float32, tw.float64)
    assert (tw.tensor([1, 2]) + 0.5).dtype == tw.float32
    assert (tw.tensor([1.0], dtype="bfloat16") * 2).dtype == tw.bfloat16
    assert isinstance(n + a, tw.Tensor)
    assert (a == None) is False  # noqa: E711
    with pytest.raises(TypeError):
        a + "text"
    with pytest.raises(TypeError):
        object() * a


def test_changes_in_place_are_seen_through_the_handle():
    a = tw.tensor([1.0, 2.0])
    b = a
    a += 1
    same(b, [2, 3])
    a[0] = 9
    same(b, [9, 3])
    c = a + 0
    a *= 0
    same(c, [9, 3])
    same(a.fill_(5), [5, 5])


INDICES = [
    np.s_[0],
    np.s_[-1, 2],
    np.s_[1:],
    np.s_[::-1, ::2],
    np.s_[..., 0],
    np.s_[:, None, 1:3],
    np.s_[[0, 1, 0]],
    np.s_[[0, 1], [2, 3]],
    np.s_[np.array([[0, 1], [1, 0]])],
    np.s_[:, np.array([True, False, True, False, True])],
    np.s_[0, [1, 0]],
    np.s_[..., np.newaxis],
    np.s_[5:1],
]


@pytest.mark.parametrize("index", INDICES, ids=str)
def test_indexing_is_numpys(index):
    n = np.arange(2 * 5 * 4, dtype="f4").reshape(2, 5, 4)
    t = tw.tensor(n)
    same(t[index], n[index])
    n[index] = -1
    t[index] = -1
    same(t, n)


def test_masks_and_bad_indices():
    n = np.arange(6.0, dtype="f4").reshape(2, 3)
    t = tw.tensor(n)
    same(t[t > 2], n[n > 2])
    t[t > 2] = 0
    same(t, np.where(n > 2, 0, n))
    for bad in [2, (0, 5), (0, 0, 0), [7]]:
        with pytest.raises(IndexError):
            t[bad].tolist()
    with pytest.raises(TypeError):
        t[1.5:]  # noqa: B018
    with pytest.raises(TypeError):
        t["a"]


def test_round_trips():
    t = tw.tensor([[1.5, -2.0], [0.0, 3.25]])
    n = np.asarray(t)
    assert n.dtype == np.float32 and not n.flags.writeable
    assert n.__array_interface__["data"][0] == np.asarray(t).__array_interface__["data"][0]
    assert t.tolist() == [[1.5, -2.0], [0.0, 3.25]] and tw.tensor(t.tolist()).tolist() == t.tolist()
    for d in ["bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64", "int64", "float8_e4m3fn", "float8_e5m2", "float16", "bfloat16", "float32", "float64", "complex64", "complex128"]:
        x = (t > 0).astype(d)
        assert x.tolist() == pickle.loads(pickle.dumps(x)).tolist()
        assert pickle.loads(pickle.dumps(x)).dtype == x.dtype
    p = tw.tensor([1.0], requires_grad=True)
    assert pickle.loads(pickle.dumps(p)).requires_grad
    assert copy.deepcopy(p).variable_id != p.variable_id
    assert tw.zeros(0, 3).tolist() == [] and tw.zeros(2, 0).tolist() == [[], []]
    assert np.asarray(tw.tensor([1.0], dtype="bfloat16")).dtype == np.float32
    assert bytes(memoryview(tw.tensor([1, 2], dtype="uint8"))) == b"\x01\x02"


def test_floats_of_8_bits():
    x = tw.tensor([[1.0, -300.0], [0.5, 1000.0]], dtype=tw.float8_e4m3fn)
    assert x.dtype.itemsize == 1 and x.dtype.name == "float8_e4m3fn" and x.dtype.is_floating_point
    assert x.tolist() == [[1.0, -288.0], [0.5, 448.0]]
    assert x.to(tw.float8_e5m2).float().tolist() == [[1.0, -256.0], [0.5, 448.0]]
    assert tw.tensor([1e6]).to("float8_e5m2").tolist() == [float("inf")]
    assert np.asarray(x).dtype == np.float32 and np.asarray(x).tolist() == x.tolist()
    assert tw.from_dlpack(x).dtype == x.dtype and tw.from_dlpack(x).tolist() == x.tolist()
    assert tw.finfo(tw.float8_e4m3fn).max == 448.0
    with pytest.raises(tw.Error, match="cast it to float32"):
        x + x
    one = tw.tensor(1.0)
    y = x.scaled_matmul(x.T, tw.tensor(0.5), one, dtype="float32", bias=tw.tensor([1.0, 2.0]))
    same(y, 0.5 * (np.asarray(x) @ np.asarray(x).T) + [1.0, 2.0])


def test_dlpack_both_ways():
    t = tw.tensor([[1.0, 2.0], [3.0, 4.0]])
    n = np.from_dlpack(t)
    assert n.tolist() == t.tolist()
    assert not n.flags.writeable
    same(tw.from_dlpack(np.arange(6, dtype="f4").reshape(2, 3).T), np.arange(6).reshape(2, 3).T)
    capsule = t.__dlpack__()
    del capsule
    with pytest.raises(TypeError):
        tw.from_dlpack(object.__new__(type("X", (), {"__dlpack__": lambda self, **k: 5})))
    with pytest.raises(TypeError, match="__dlpack__"):
        tw.from_dlpack(3)


def test_a_view_outlives_its_tensor():
    t = tw.arange(1000, dtype="float32") * 2
    n = np.asarray(t)
    del t
    assert n[999] == 1998


def test_numbers_and_words():
    assert tw.tensor(2.5).item() == 2.5 and tw.tensor([3]).item() == 3 and tw.tensor(True).item() is True
    assert float(tw.tensor(2.5)) == 2.5 and int(tw.tensor([7])) == 7 and [1, 2, 3][tw.tensor(1)] == 2
    assert bool(tw.tensor([0.0])) is False
    assert f"{tw.tensor(1.23456):.2f}" == "1.23"
    assert repr(tw.tensor([1.0, 2.0])) == "tensor([1., 2.])"
    assert "requires_grad=True" in repr(tw.tensor([1.0], requires_grad=True))
    assert 2.0 in tw.tensor([1.0, 2.0]) and 5 not in tw.tensor([1.0])
    assert [r.tolist() for r in tw.tensor([[1, 2], [3, 4]])] == [[1, 2], [3, 4]]
    with pytest.raises(TypeError):
        len(tw.tensor(1))
    with pytest.raises(ValueError):
        tw.tensor([1, 2]).item()


def test_errors_name_the_line_and_are_pythons_own():
    a, b = tw.zeros(2, 3), tw.zeros(4, 5)
    with pytest.raises(ValueError) as e:
        a @ b
    assert isinstance(e.value, tw.ShapeError) and isinstance(e.value, tw.Error)
    assert "matmul" in str(e.value) and "[2, 3]" in str(e.value)
    assert "test_tensor.py:" in str(e.value)
    with pytest.raises(IndexError, match="axis 5"):
        a.sum(axis=5)
    with pytest.raises(TypeError):
        tw.tensor([1.5]) & tw.tensor([1.5])
    with pytest.raises(TypeError):
        a.sum(axis=0, dim=1)
    with pytest.raises(TypeError):
        a.softmax("x")
    with pytest.raises(ValueError):
        a.mse_loss(a, reduction="wrong")


def test_spellings():
    x = tw.tensor([[1.0, 2.0], [3.0, 4.0]])
    same(x.sum(dim=1, keepdim=True), [[3], [7]])
    same(tw.sum(x, axis=0), [4, 6])
    same(x.reshape(-1), [1, 2, 3, 4])
    same(x.view(4, 1), [[1], [2], [3], [4]])
    same(x.T, [[1, 3], [2, 4]])
    same(tw.cat([x, x], dim=1), [[1, 2, 1, 2], [3, 4, 3, 4]])
    same(tw.stack([x, x]).sum((0, 2)), [6, 14])
    same(tw.where(x > 2, x, 0), [[0, 0], [3, 4]])
    same(tw.einsum("ij,jk->ik", x, x), [[7, 10], [15, 22]])
    assert x.float().dtype == tw.float32 and x.to("float64").dtype == tw.float64 and x.to("cpu").shape == (2, 2)
    assert tw.eye(2, 3, k=1).tolist() == [[0, 1, 0], [0, 0, 1]]
    assert tw.linspace(0, 1, 3).tolist() == [0, 0.5, 1]
    with pytest.raises(tw.DeviceError, match="no device \"abacus:0\""):
        x.to("abacus:0")


def test_the_stubs_are_python_and_name_what_there_is():
    import ast
    import inspect
    from pathlib import Path

    stubs = ast.parse(Path(tw.__file__).with_suffix(".pyi").read_text())
    functions = {n.name: n for n in stubs.body if isinstance(n, ast.FunctionDef)}
    assert {n for n in functions if not hasattr(tw, n)} == set()
    methods = next(n for n in stubs.body if isinstance(n, ast.ClassDef) and n.name == "Tensor").body
    for m in methods:
        if isinstance(m, ast.FunctionDef) and m.name in tw._native.OPS and not inspect.isfunction(getattr(tw.Tensor, m.name)):
            shown = [p for p in inspect.signature(getattr(tw.Tensor, m.name)).parameters if p != "self"]
            assert [a.arg for a in [*m.args.args, *m.args.kwonlyargs] if a.arg != "self"] == shown, m.name


def test_threads_share_nothing_they_should_not():
    results = {}

    def work(i):
        tw.manual_seed(i)
        x = tw.randn(64, 64)
        with tw.no_grad():
            for _ in range(20):
                x = (x @ x).tanh()
        results[i] = x.sum().item()

    for _ in range(2):
        before = dict(results)
        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        [t.start() for t in threads]
        [t.join() for t in threads]
        assert not before or before == results
    assert tw.is_grad_enabled()


def test_the_same_seed_gives_the_same_numbers():
    tw.manual_seed(3)
    a = tw.randn(4).tolist()
    tw.manual_seed(3)
    assert tw.randn(4).tolist() == a
    assert sorted(tw.randperm(5).tolist()) == [0, 1, 2, 3, 4]
    r = tw.randint(0, 3, (100,))
    assert r.min().item() >= 0 and r.max().item() <= 2


@pytest.mark.parametrize("kind", ["int16", "uint16", "uint64"])
def test_integers_at_the_ends_of_their_range(kind):
    info = np.iinfo(kind)
    x = np.array([info.max, 1, info.max - 7, info.max // 2 + 1, 0, 5], kind)
    y = np.array([3, info.max, info.max - 7, 2, 1, 9], kind)
    a, b = tw.asarray(x), tw.asarray(y)
    assert a.dtype.name == kind and a.tolist() == x.tolist() and a[0].item() == info.max == tw.iinfo(kind).max
    assert np.asarray(a).dtype == x.dtype and np.from_dlpack(a).dtype == x.dtype and tw.from_dlpack(x).tolist() == x.tolist()
    for f in [lambda a, b: a < b, lambda a, b: a // b, lambda a, b: a % b, lambda a, b: a >> (b % 16), lambda a, b: a * b, lambda a, b: a ^ b]:
        assert f(a, b).tolist() == f(x, y).tolist()
    assert (a.max().item(), a.min().item(), a.argmax().item()) == (x.max(), x.min(), x.argmax())
    assert tw.sort(a).values.tolist() == np.sort(x).tolist() and tw.maximum(a, b).tolist() == np.maximum(x, y).tolist()
    assert tw.sum(a).dtype.name == "int64" and tw.sum(a).item() == x.astype("int64").sum()
    assert tw.cumsum(a, 0).tolist() == x.astype("int64").cumsum().tolist() and tw.unique(a).tolist() == np.unique(x).tolist()
    assert a.astype("float64").tolist() == x.astype("float64").tolist() and a.astype("int8").tolist() == x.astype("int8").tolist()
    assert (a.reshape(2, 3) @ b.reshape(3, 2)).tolist() == (x.reshape(2, 3) @ y.reshape(3, 2)).tolist()
    assert a.reshape(2, 3).amax(0).tolist() == x.reshape(2, 3).max(0).tolist()
    assert str(info.max) in repr(a) and pickle.loads(pickle.dumps(a)).tolist() == x.tolist()


def test_whole_numbers_beyond_int64():
    big = 2**63 + 5
    assert tw.asarray(big).dtype == tw.uint64 and tw.asarray([1, big]).tolist() == [1, big]
    x = tw.asarray([big], dtype="uint64")
    assert (x + 1).tolist() == [big + 1] and (x - big).tolist() == [0] and int(x) == big and (x == big).tolist() == [True]
    assert (x + tw.asarray([1], dtype="int8")).dtype == tw.float64
