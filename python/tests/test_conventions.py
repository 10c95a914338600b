"""What NumPy, PyTorch and the array API agree on at the edges: empty ranges, negative places, masks without dimensions,
element types of running sums, division, default arguments."""

import math

import numpy as np
import pytest

import talweg as tw
import talweg.array_api as xp
import talweg.nn.functional as F


def test_rows_of_complex_tensors_are_all_there():
    z = tw.tensor(np.arange(6).reshape(2, 3) * (1 + 2j))
    for parts in (list(z), z.unbind(0), tw.unstack(z), z.split(1), z.chunk(2), tw.jit(lambda z: list(z.unbind(0)))(z)):
        assert np.array_equal(np.stack([p.numpy() for p in parts]).reshape(2, 3), z.numpy())
    rows = tw.vmap(lambda r: tw.stack(list(r)))(z)
    assert np.array_equal(rows.numpy(), z.numpy())
    g = tw.grad(lambda x: sum((r.abs() ** 2).sum() for r in x))(z)
    assert np.allclose(g.numpy(), 2 * z.numpy())


def test_loops_and_batches_draw_anew():
    rows = tw.scan(lambda c, _: (c, tw.rand(2)), tw.zeros(()), None, length=3)[1].numpy()
    assert len({r.tobytes() for r in rows}) == 3
    batch = tw.vmap(lambda x: F.dropout(x, 0.5), randomness="different")(tw.ones(4, 100)).numpy()
    assert len({r.tobytes() for r in batch}) == 4
    tw.manual_seed(3)
    a = tw.vmap(lambda x: x * tw.randn(3), randomness="different")(tw.ones(2)).numpy()
    tw.manual_seed(3)
    assert np.array_equal(a, tw.jit(tw.vmap(lambda x: x * tw.randn(3), randomness="different"))(tw.ones(2)).numpy())


def test_an_empty_axis_has_no_slices():
    assert tw.unstack(tw.zeros(0, 3)) == ()
    assert len(tw.unstack(tw.zeros((2, 0)), axis=1)) == 0


def test_a_range_that_leads_nowhere_is_empty():
    assert tw.arange(1, 0).shape == (0,) and tw.arange(0.0, 1.0, -0.5).shape == (0,)
    assert tw.arange(3, 0, -2).tolist() == [3, 1]
    with pytest.raises(ValueError):
        tw.arange(0, 3, 0)


def test_negative_places_count_from_the_end():
    x = tw.arange(6).reshape(2, 3)
    assert tw.take(x, tw.tensor([-1, 0]), axis=1).tolist() == [[2, 0], [5, 3]]
    assert x.take(tw.tensor([-1], dtype="int8"), 0).tolist() == [[3, 4, 5]]
    assert tw.take(tw.arange(300), tw.tensor([-1], dtype="int8")).tolist() == [299]
    with pytest.raises(IndexError):
        tw.take(x, tw.tensor([-3]), 0).tolist()


@pytest.mark.parametrize("kind", ["uint8", "int8", "float64", "int32"])
def test_running_sums_have_the_type_that_was_asked_for(kind):
    x = tw.tensor([100, 100, 100])
    for f, g in ((xp.cumulative_sum, np.cumsum), (xp.cumulative_prod, np.cumprod)):
        y = f(x, dtype=getattr(tw, kind))
        assert y.dtype.name == kind
        assert np.array_equal(y.numpy(), g(x.numpy().astype(kind), dtype=kind))


def test_a_shape_by_its_name():
    for f in (tw.zeros, tw.ones, tw.empty, tw.rand, tw.randn):
        assert f(shape=(2, 3)).shape == f((2, 3)).shape == f(2, 3).shape == (2, 3)
        assert f(()).shape == f().shape == () and f(shape=4).shape == f(4).shape == (4,)
    assert tw.full(shape=(2,), fill_value=1).tolist() == [1, 1]


def test_a_mask_without_dimensions():
    x = tw.tensor(3.0)
    assert x[tw.tensor(True)].tolist() == [3.0] and x[tw.tensor(False)].tolist() == []
    assert tw.zeros(2, 3)[tw.tensor(True)].shape == (1, 2, 3)
    assert tw.zeros(2, 3)[tw.zeros((2, 0), dtype="bool")].shape == (0,)
    with pytest.raises(ValueError):
        xp.nonzero(tw.tensor(1))
    x[tw.tensor(True)] = 5.0
    assert x.item() == 5.0
    x[tw.tensor(False)] = 7.0
    assert x.item() == 5.0


def test_floats_divide_as_in_python():
    inf = math.inf
    for a, b in [(1.0, 0.1), (-1.0, inf), (1.0, -inf), (7.5, -2.0), (-0.0, 3.0), (0.0, -3.0), (1e300, 3.0), (5.3, 0.1)]:
        q, r = tw.tensor(a, dtype="float64") // b, tw.tensor(a, dtype="float64") % b
        assert (repr(q.item()), repr(r.item())) == (repr(a // b), repr(a % b)), (a, b)
    for kind in ("float16", "float32"):
        x, y = np.linspace(-9, 9, 41).astype(kind), np.array(0.7, kind)
        assert np.array_equal((tw.tensor(x) // tw.tensor(y)).numpy(), x // y)


def test_functions_at_their_ends():
    for kind in ("float16", "float32", "float64"):
        assert np.isnan(tw.acosh(tw.tensor([-30000.0, -1e4, 0.5], dtype=kind)).numpy()).all()
        most = np.finfo(kind).max
        assert tw.nan_to_num(tw.tensor([math.nan, math.inf, -math.inf], dtype=kind)).tolist() == [0.0, most, -most]
    assert tw.nan_to_num(tw.tensor([math.inf], dtype="bfloat16")).astype("float32").isfinite().all()
    assert tw.nan_to_num(tw.tensor([complex(math.nan, math.inf)])).numpy()[0].real == 0.0
    assert F.gelu(tw.tensor([2e38])).item() == pytest.approx(2e38)
    assert not np.signbit(tw.sign(tw.tensor([-0.0])).numpy()[0])
    assert tw.cov(tw.tensor([[0.0, 1.0, 2.0], [2.0, 1.0, 0.0]])).tolist() == [[1.0, -1.0], [-1.0, 1.0]]


def test_random_numbers_of_every_type():
    x = tw.rand(100000, dtype="float64").numpy()
    assert (x * 2**24 % 1 != 0).mean() > 0.9 and len(np.unique(x)) == len(x)
    z = tw.randn(1000, dtype="float64").numpy()
    assert (z.astype("float32") != z).mean() > 0.9
    for kind in ("float16", "bfloat16"):
        assert (tw.rand(200000, dtype=kind).astype("float32") < 1).all()
    share = (tw.randint(0, 3 * 2**61, (20000,)).numpy() < 3 * 2**59).mean()
    assert abs(share - 0.25) < 0.02


def test_borders_losses_and_differences():
    x = tw.arange(4.0).reshape(1, 1, 4)
    assert F.pad(x, (-1, 1), mode="circular").tolist() == [[[1.0, 2.0, 3.0, 1.0]]]
    x = tw.tensor([[1.0, 2.0], [3.0, 5.0]])
    v = tw.tensor([1.0, 4.0])
    got = F.gaussian_nll_loss(x, tw.zeros(2, 2), v, full=False, reduction="none")
    want = 0.5 * (np.log(v.numpy())[:, None] + x.numpy() ** 2 / v.numpy()[:, None])
    assert np.allclose(got.numpy(), want)
    assert tw.diff(tw.arange(3), n=0, append=tw.arange(2)).tolist() == [0, 1, 2]


def test_half_precision_does_not_overflow_inside():
    x = tw.tensor(np.linspace(-600, 600, 60), dtype="float16")
    a = x.numpy().astype("float64")
    assert x.std().item() == pytest.approx(a.std(ddof=1), rel=2e-3)
    assert tw.linalg.vector_norm(x).item() == pytest.approx(np.linalg.norm(a), rel=2e-3)
    assert F.cosine_similarity(x, x, 0).item() == pytest.approx(1.0, rel=2e-3)
    assert x.dist(x * 0.5, 2.0).item() == pytest.approx(np.linalg.norm(a / 2), rel=2e-3)
    assert tw.full((2000,), 600.0, dtype="float16").mean().item() == 600.0
    y = tw.tensor([-0.6797], dtype="bfloat16")
    assert tw.logaddexp(y, y).astype("float32").item() == pytest.approx(0.0135, rel=5e-3)


def test_matrices():
    a = np.array([[1.0, 1e103], [2.0, 3e103]])
    for x in (a, a[:, ::-1]):
        q, r = tw.linalg.qr(tw.tensor(x))
        assert np.allclose(q.numpy() @ r.numpy() / np.abs(x).max(0), x / np.abs(x).max(0))
    with pytest.raises((ValueError, tw.errors.ShapeError if hasattr(tw.errors, "ShapeError") else ValueError)):
        tw.vecdot(tw.tensor([0.0]), tw.tensor([1.0, 2.0]))
    x = tw.tensor(np.stack([np.diag([4.0, 1.0]), np.diag([4.0, 3.0])]))
    p = tw.linalg.pinv(x, rtol=tw.tensor([0.5, 0.5]))
    assert np.allclose(p.numpy(), [np.diag([0.25, 0.0]), np.diag([0.25, 1 / 3])])
    with_end = tw.linspace(0.1, 0.7, 8, dtype="float64").tolist()
    assert tw.linspace(0.1, 0.7, 7, endpoint=False, dtype="float64").tolist() == with_end[:-1]


@pytest.mark.parametrize("name", ["exp", "expm1", "sinh", "cosh", "tanh", "sin", "cos", "tan", "asin", "acos", "atan", "asinh", "atanh", "sqrt", "log", "log1p"])
def test_complex_functions_have_their_slope_at_real_numbers(name):
    f, at, step = getattr(tw, name), np.array([0.3 + 0j, 0.7 + 0j, 0.1 - 0j]), 1e-6

    def total(z):
        y = f(z)
        return (y.real * 1.3 + y.imag * 0.7).sum()

    got = tw.grad(total)(tw.tensor(at)).numpy()
    for k in range(3):
        for direction, part in [(1.0, got[k].real), (1j, got[k].imag)]:
            shift = np.eye(3)[k] * direction * step
            slope = (total(tw.tensor(at + shift)).item() - total(tw.tensor(at - shift)).item()) / (2 * step)
            assert part == pytest.approx(slope, abs=1e-6), (name, at[k], direction)


def test_dimensions_of_a_tensor_without_any():
    x = tw.tensor(2.5)
    for dim in (0, -1):
        for name in "sum mean prod amax amin logsumexp softmax log_softmax cumsum cumprod logcumsumexp argsort flip".split():
            assert getattr(x, name)(dim).shape == (), name
        for name in "max min sort median mode cummax".split():
            values, indices = getattr(x, name)(dim)
            assert (values.item(), indices.item(), values.shape) == (2.5, 0, ()), name
        assert x.topk(1, dim)[1].item() == 0 and x.argmax(dim).item() == 0 and x.std(dim).isnan().item()
        assert tw.tensor(True).all(dim).item() is True
    with pytest.raises(tw.Error, match="axis 1 is out of range"):
        x.sum(1)


def test_what_is_written_over_a_computed_tensor_keeps_its_history():
    for write in (lambda y: y.zero_(), lambda y: y.fill_(3.0), lambda y: y.copy_(tw.ones(2))):
        x = tw.tensor([1.0, 2.0], requires_grad=True)
        y = x * 2
        write(y)
        assert y.requires_grad
        (y * x).sum().backward()
        assert x.grad.tolist() == y.tolist()


def test_unknown_keywords_of_methods_name_the_nearest():
    x = tw.ones(2, 3)
    with pytest.raises(tw.errors.CallError, match=r"sum\(\) got an unexpected keyword 'dims'; did you mean 'dim'\? It takes \(dim=None"):
        x.sum(dims=0)
    with pytest.raises(tw.errors.CallError, match=r"relu\(\) got an unexpected keyword 'slope'; it takes \(\)"):
        x.relu(slope=2)
    layer = tw.nn.Embedding(5, 2)
    with pytest.raises(tw.errors.OutOfRangeError, match="embedding: index 7 is out of range for axis 0 of size 5"):
        layer(tw.tensor([1, 7])).tolist()


def test_a_traceback_ends_at_the_line_of_the_program():
    import subprocess
    import sys

    code = "import talweg as tw\ntw.softmax(tw.ones(2), dmi=0)\n"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    lines = done.stderr.splitlines()
    assert lines[-2].startswith('  File "<string>", line 2') and "did you mean 'dim'" in lines[-1], done.stderr


def test_a_scalar_has_two_axes_to_exchange():
    x = tw.tensor(3.0)
    for y in (x.transpose(0, -1), x.swapaxes(-1, 0), tw.transpose(x, 0, 0), tw.swapdims(x, 0, 0)):
        assert y.shape == () and y.item() == 3.0
    with pytest.raises(IndexError, match="transpose: axis 1"):
        x.transpose(1, 0)


def test_functions_of_three_tensors_promote_as_arithmetic_does():
    half, one, two = tw.ones(1, dtype="float16"), tw.tensor(1.0), tw.tensor(2, dtype="float64")
    assert tw.addcmul(half, one, two).dtype == tw.addcdiv(half, one, two).dtype == tw.float16
    assert tw.addcmul(tw.tensor([1]), tw.tensor([1.5]), one).dtype == tw.float32
    assert tw.addcmul(tw.tensor([1]), tw.tensor([1]), tw.tensor([2]), value=0.5).tolist() == [1]  # a whole factor
    assert tw.lerp(tw.tensor([1.0]), tw.tensor([2.0]), tw.tensor(0.5, dtype="float64")).dtype == tw.float32


def test_calls_with_other_counts_of_arguments_say_what_is_taken():
    x = tw.ones(1)
    with pytest.raises(TypeError, match=r"exp\(\) missing 1 required positional argument: 'input'; it takes \(input\)"):
        tw.exp()
    with pytest.raises(TypeError, match=r"exp\(\) takes 1 positional argument but 3 were given; it takes \(input\)"):
        tw.exp(x, 1, 2)
    with pytest.raises(TypeError, match=r"ELU\(\) takes .* given; it takes \(alpha, inplace\)"):
        tw.nn.ELU(1.0, False, 2)
