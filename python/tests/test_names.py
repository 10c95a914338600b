"""What names mean (docs/names.md): PyTorch's results of the table of expressions, stored, and the array API's where the
two contradict each other."""

import copy
import json
import pickle
import re
import threading
from pathlib import Path

import numpy as np
import pytest
from tensor_expressions import EXPECTED, LINES, differs, evaluated

import talweg as tw
import talweg.array_api as xp

STORED = json.loads(EXPECTED.read_text())
PAGE = Path(__file__).parent.parent.parent / "docs" / "names.md"


@pytest.mark.parametrize("line", LINES)
def test_stored_results(line):
    if "cuda" in line and tw.cuda.is_available():
        pytest.skip("stored on a machine without a GPU")
    ours, error = evaluated(tw, line)
    if "raises" in STORED[line]:
        assert isinstance(error, tw.Error) and re.search(r"\(at .*\)", str(error)), f"{error!r} {ours!r}"
    else:
        assert error is None and differs(ours, STORED[line]) is None, error or differs(ours, STORED[line])


def test_where_the_standard_means_something_else():
    x, i = tw.tensor([[3.0, 1.0], [2.0, 4.0]]), tw.tensor([3, 1, 3])
    assert x.__array_namespace__() is xp and xp.__array_api_version__ == "2025.12"
    assert xp.max(x, axis=0).tolist() == [3.0, 4.0] and tw.max(x, 0).values.tolist() == [3.0, 4.0]
    assert xp.sort(x).tolist() == tw.sort(x).values.tolist() == [[1.0, 3.0], [2.0, 4.0]]
    assert xp.std(x).item() == pytest.approx(np.std(x.numpy())) and tw.std(x).item() == pytest.approx(np.std(x.numpy(), ddof=1))
    assert xp.var(x, axis=0).tolist() == pytest.approx(np.var(x.numpy(), 0).tolist())
    assert xp.equal(x, x).shape == (2, 2) and tw.equal(x, x) is True
    assert len(xp.nonzero(i)) == 1 and tw.nonzero(i).shape == (3, 1)
    assert xp.sum(x, axis=()).shape == (2, 2) and tw.sum(x, dim=()).shape == ()
    assert [g.tolist() for g in xp.meshgrid(i[:2], i)][0] == tw.meshgrid(i[:2], i, indexing="xy")[0].tolist()
    assert tw.meshgrid(i[:2], i, indexing="ij")[0].shape == (2, 3) and xp.meshgrid(i[:2], i)[0].shape == (3, 2)
    assert xp.take(i, tw.tensor([0]), axis=0).tolist() == [3] and tw.take(x, tw.tensor([3])).tolist() == [4.0]
    assert xp.can_cast(tw.float64, tw.float32) is False and tw.can_cast(tw.float64, tw.float32) is True
    with pytest.raises(tw.Error):
        xp.squeeze(x, axis=0)
    assert tw.squeeze(x, 0).shape == (2, 2)


@pytest.mark.parametrize("name, instead", [("repeat", "repeat_interleave"), ("permute_dims", "permute"), ("cumulative_sum", "cumsum"), ("unique_values", "unique"), ("astype", "x.to")])
def test_names_of_the_standard_alone_say_what_to_write(name, instead):
    with pytest.raises(AttributeError, match=re.escape(instead)):
        getattr(tw, name)
    assert hasattr(xp, name)


def test_pythons_own_functions():
    x = tw.tensor([[3.0, 1.0, 2.0], [4.0, 2.5, 6.0]])
    assert round(x).tolist() == [[3.0, 1.0, 2.0], [4.0, 2.0, 6.0]] and round(x, 1).tolist() == x.tolist()
    quotient, rest = divmod(x, 2)
    assert quotient.tolist() == (x // 2).tolist() and rest.tolist() == (x % 2).tolist()
    for result in [np.exp(x), np.add(x, 1), np.ones((2, 3), "f4") + x, np.mean(x), np.sum(x, axis=0), np.max(x)]:
        assert isinstance(result, tw.Tensor)
    assert np.mean(x).item() == pytest.approx(x.numpy().mean()) and np.sum(x, axis=0).tolist() == x.sum(0).tolist()


def test_number_of_elements_can_be_called():
    x = tw.zeros(2, 3)
    assert x.size == 6 and isinstance(x.size, int) and x.size() == (2, 3) and x.size(-1) == 3
    assert isinstance(x.shape, tw.Size) and x.shape + (4,) == tw.Size([2, 3, 4]) and (x.shape * 2).numel() == 36
    assert pickle.loads(pickle.dumps(x.shape)) == x.shape and isinstance(copy.deepcopy(x.shape), tw.Size)
    assert isinstance(tw.jit(lambda a: a.reshape(a.shape))(x).shape, tw.Size)
    with pytest.raises(IndexError):
        x.size(2)


def test_types_are_one_object():
    for name in ["float32", "int64", "bool", "complex64", "bfloat16", "float8_e5m2"]:
        d = getattr(tw, name)
        assert tw.zeros(1, dtype=name).dtype is d and tw.dtype(name) is d and pickle.loads(pickle.dumps(d)) is d
        assert copy.deepcopy(d) is d and repr(d) == str(d) == f"talweg.{name}"
    assert tw.float is tw.float32 and tw.long is tw.int64 and tw.finfo(tw.half).dtype is tw.float16


def test_default_type():
    tw.set_default_dtype(tw.float64)
    try:
        made = [tw.tensor(1.5), tw.zeros(1), tw.rand(1), tw.arange(0.0, 1.0, 0.5), tw.linspace(0, 1, 2), tw.tensor([1]) * 0.5]
        assert {t.dtype for t in made} == {tw.float64} == {tw.get_default_dtype()} and tw.tensor(1j).dtype is tw.complex128
    finally:
        tw.set_default_dtype(tw.float32)
    with pytest.raises(TypeError):
        tw.set_default_dtype(tw.int64)


def test_devices_are_objects():
    cpu = tw.device("cpu")
    assert cpu == tw.device("cpu") == "cpu" and hash(cpu) == hash(tw.device("cpu")) and cpu.type == "cpu" and cpu.index is None
    assert tw.device("cuda", 1) == tw.device("cuda:1") != tw.device("cuda") and tw.device(0) == tw.device("cuda:0")
    assert repr(tw.device("cuda:1")) == "device(type='cuda', index=1)" and pickle.loads(pickle.dumps(cpu)) == cpu
    with cpu:
        assert tw.zeros(1).device == cpu and isinstance(tw.zeros(1).device, tw.device)
    x = tw.ones(2)
    assert x.to(cpu) is x and x.to(cpu, tw.float64).dtype is tw.float64 and x.cpu() is x and x.to(x, copy=True) is not x
    if not tw.cuda.is_available():
        for make in [lambda: x.to("cuda"), lambda: tw.zeros(2, device=tw.device("cuda")), lambda: x.cuda(), lambda: tw.nn.Linear(1, 1).to(tw.device("cuda:0"))]:
            with pytest.raises(tw.DeviceError, match="cpu"):
                make()
    for bad in ["abacus", "cuda:x", 1.5]:
        with pytest.raises(tw.Error):
            tw.device(bad)


def test_generators_have_their_own_numbers():
    tw.manual_seed(5)
    a, b = tw.rand(3), tw.randn(2)
    g = tw.Generator().manual_seed(5)
    assert tw.equal(tw.rand(3, generator=g), a) and tw.equal(tw.randn(2, generator=g), b)
    state, before = g.get_state(), tw.get_rng_state()
    draws = [tw.randint(9, (4,), generator=g), tw.randperm(5, generator=g), tw.normal(0.0, 1.0, (3,), generator=g), tw.bernoulli(tw.full((5,), 0.5), generator=g)]
    draws += [tw.multinomial(tw.ones(6), 3, generator=g), tw.zeros(3).uniform_(generator=g), tw.zeros(3).exponential_(generator=g)]
    assert tw.equal(before, tw.get_rng_state())
    g.set_state(state)
    again = [tw.randint(9, (4,), generator=g), tw.randperm(5, generator=g), tw.normal(0.0, 1.0, (3,), generator=g), tw.bernoulli(tw.full((5,), 0.5), generator=g)]
    again += [tw.multinomial(tw.ones(6), 3, generator=g), tw.zeros(3).uniform_(generator=g), tw.zeros(3).exponential_(generator=g)]
    assert all(tw.equal(p, q) for p, q in zip(draws, again))
    with pytest.raises(ValueError, match="traced"):
        tw.jit(lambda x: x + tw.rand(2, generator=g))(tw.ones(2))
    seen = []
    thread = threading.Thread(target=lambda: seen.append(tw.manual_seed(5) and tw.rand(3).tolist()))
    thread.start(), thread.join()
    assert seen == [a.tolist()]


def test_draws_follow_their_weights():
    tw.manual_seed(1)
    drawn = tw.multinomial(tw.tensor([1.0, 3.0, 0.0]), 20000, replacement=True).numpy()
    assert abs((drawn == 1).mean() - 0.75) < 0.02 and (drawn != 2).all()
    rows = tw.multinomial(tw.tensor([[1.0, 1.0, 0.0]] * 500), 2).numpy()
    assert (np.sort(rows, 1) == [0, 1]).all() and abs((rows[:, 0] == 0).mean() - 0.5) < 0.1
    x = tw.zeros(50000)
    assert abs(x.exponential_(2.0).mean().item() - 0.5) < 0.02 and abs(x.normal_(1.0, 2.0).std().item() - 2.0) < 0.05
    assert abs(x.geometric_(0.25).mean().item() - 4.0) < 0.1 and 0.0 <= x.random_(3).min().item() and x.max().item() == 2.0


def test_a_leaf_is_not_changed_in_place():
    for change in [lambda w: w.add_(1), lambda w: w.zero_(), lambda w: w.scatter_(0, tw.tensor([0]), 1.0), lambda w: w.uniform_(), lambda w: w.__setitem__(0, 1.0)]:
        w = tw.ones(2, requires_grad=True)
        with pytest.raises(tw.GradientError, match=r"test_names.py"):
            change(w)
        with tw.no_grad():
            change(w)


def test_results_in_place_keep_shape_and_kind():
    x = tw.tensor([1, 2])
    for bad in [lambda: x.add_(1.5), lambda: x.div_(2), lambda: x.add_(tw.ones(3, 2)), lambda: x.sqrt_()]:
        with pytest.raises(tw.Error):
            bad()
    assert x.tolist() == [1, 2]


def test_results_are_written_to_out():
    x, out = tw.tensor([3.0, 1.0]), tw.zeros(2)
    assert tw.exp(x, out=out) is out and out.tolist() == pytest.approx(np.exp([3.0, 1.0]))
    view = tw.zeros(3)
    tw.add(x, 1, out=view[1:])
    assert view.tolist() == [0.0, 4.0, 2.0]
    for bad in [lambda: tw.exp(x, out=tw.zeros(3)), lambda: tw.exp(x, out=tw.zeros(2, dtype="int64")), lambda: tw.sort(x, out=out), lambda: tw.exp(x, out=3)]:
        with pytest.raises(tw.Error):
            bad()


def test_the_page_lists_every_contradiction():
    page = PAGE.read_text()
    for name in "max min sort argsort std var equal nonzero unique take squeeze meshgrid can_cast result_type repeat size".split():
        assert f"`{name}`" in page, name
