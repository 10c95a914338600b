"""Gradients, batching, compilation, control flow: values against hand arithmetic and each other."""

import json

import numpy as np
import pytest

import talweg as tw


def close(a, b, tolerance=1e-5):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=tolerance, atol=tolerance)


def test_backward_collects():
    x = tw.tensor([1.0, 2.0], requires_grad=True)
    assert x.requires_grad and x.is_leaf and x.grad is None
    (x * x).sum().backward()
    close(x.grad, [2, 4])
    (x * x).sum().backward()
    close(x.grad, [4, 8])
    x.grad = None
    (x * 3).backward(tw.tensor([1.0, 10.0]))
    close(x.grad, [3, 30])
    with pytest.raises(tw.GradientError):
        (x * 2).backward()
    with pytest.raises(tw.GradientError):
        tw.tensor([1.0]).sum().backward()
    with pytest.raises(TypeError):
        tw.tensor([1], requires_grad=True)


def test_no_grad_and_changes_in_place():
    w = tw.tensor([3.0], requires_grad=True)
    with tw.no_grad():
        assert not (w * 2).requires_grad
        w -= 1
        w[0] = 5.0
    assert w.requires_grad
    close(w, [5])
    with pytest.raises(RuntimeError):
        w += 1

    @tw.no_grad()
    def f(x):
        return x * 2

    assert not f(w).requires_grad and (w * 2).requires_grad
    assert not w.detach().requires_grad


def test_functional_gradients():
    def f(w, x):
        return (w["a"] * x + w["b"]).square().sum()

    w = {"a": tw.tensor([1.0, 2.0]), "b": tw.tensor(0.5)}
    x = tw.tensor([3.0, 4.0])
    value, g = tw.value_and_grad(f)(w, x)
    close(value, 3.5**2 + 8.5**2)
    close(g["a"], [2 * 3.5 * 3, 2 * 8.5 * 4])
    close(g["b"], 2 * (3.5 + 8.5))
    gw, gx = tw.grad(f, argnums=(0, 1))(w, x)
    close(gx, [2 * 3.5, 2 * 8.5 * 2])
    g, aux = tw.grad(lambda x: (x.square().sum(), {"twice": x * 2}), has_aux=True)(x)
    close(aux["twice"], [6, 8])
    close(tw.grad(tw.grad(lambda x: (x * x * x).sum()))(tw.tensor(2.0)), 12)
    close(tw.jacobian(lambda x: x * x)(tw.tensor([1.0, 3.0])), [[2, 0], [0, 6]])
    close(tw.hessian(lambda x: (x * x * x).sum())(tw.tensor([1.0, 3.0])), [[6, 0], [0, 18]])
    y, dy = tw.jvp(lambda x: x * x, (x,), (tw.tensor([1.0, 0.0]),))
    close(dy, [6, 0])
    with pytest.raises(TypeError):
        tw.grad(lambda x: 3.0)(x)
    with pytest.raises(ValueError):
        tw.grad(f, argnums=7)(w, x)


def test_what_a_function_raises_comes_out():
    class Own(Exception):
        pass

    def bad(x):
        raise Own("as it was")

    x = tw.tensor([1.0])
    for transformed in [tw.grad(bad), tw.jit(bad), tw.vmap(bad)]:
        with pytest.raises(Own, match="as it was"):
            transformed(x)
    with pytest.raises(tw.TraceError, match="unknown while the function is traced"):
        tw.jit(lambda x: x if x > 0 else -x)(x)
    close(x + 1, [2])


def test_vmap():
    a, b = tw.randn(5, 3), tw.randn(3, 4)
    close(tw.vmap(lambda r, m: r @ m, in_axes=(0, None))(a, b), np.asarray(a) @ np.asarray(b))
    close(tw.vmap(lambda r: r.sum(), in_axes=1)(a), np.asarray(a).sum(0))
    per_example = tw.vmap(tw.grad(lambda x: (x * x).sum()))(a)
    close(per_example, 2 * np.asarray(a))
    with pytest.raises(ValueError):
        tw.vmap(lambda x, y: x, in_axes=(0,))(a, b)


def test_jit_replays():
    calls = []

    @tw.jit
    def f(x, scale, *, shift=0.0):
        calls.append(1)
        return {"y": (x * scale + shift).softmax(-1), "n": (x.sum(), scale)}

    x = tw.randn(2, 3)
    for _ in range(3):
        out = f(x, 2.0, shift=1.0)
    close(out["y"], (x * 2.0 + 1.0).softmax(-1))
    assert out["n"][1] == 2.0
    assert len(calls) == 1 and f.traces == 1
    f(x, 3.0)
    f(tw.randn(4, 3), 3.0)
    assert f.traces == 3 and f.__name__ == "f"


def test_jitted_training_equals_eager():
    def make():
        tw.manual_seed(1)
        w = tw.tensor(np.linspace(-1, 1, 12).reshape(4, 3), dtype="float32", requires_grad=True)
        return w, tw.optim.Adam([w], lr=0.1)

    x, y = tw.randn(8, 4), tw.randint(0, 3, (8,))

    def step(w, o, x, y):
        loss = (x @ w).cross_entropy(y)
        o.zero_grad()
        loss.backward()
        o.step()
        return loss

    w, o = make()
    eager = [step(w, o, x, y).item() for _ in range(5)]
    w, o = make()
    fast = tw.jit(lambda x, y: step(w, o, x, y))
    assert [fast(x, y).item() for _ in range(5)] == eager
    assert eager[-1] < eager[0]


def test_jit_draws_anew():
    f = tw.jit(lambda x: x + tw.rand(3))
    x = tw.zeros(3)
    assert f(x).tolist() != f(x).tolist()


def test_control_flow():
    x = tw.tensor(3.0, requires_grad=True)
    y = tw.cond(x > 0, lambda v: v * v, lambda v: -v, x)
    y.backward()
    close(x.grad, 6)
    total = tw.while_loop(lambda c: c["i"] < 5, lambda c: {"i": c["i"] + 1, "s": c["s"] * 2}, {"i": tw.tensor(0), "s": tw.tensor(1.0)})
    close(total["s"], 32)
    last, sums = tw.scan(lambda c, r: (c + r, c + r), tw.tensor(0.0), tw.tensor([1.0, 2.0, 3.0]))
    close(last, 6)
    close(sums, [1, 3, 6])
    close(tw.fori_loop(0, 4, lambda i, v: v + i, tw.tensor(0)), 6)


def test_custom_gradient_and_checkpoint():
    @tw.custom_gradient(lambda x: x.clamp(-1.0, 1.0))
    def straight(xs, ys, gs):
        return [gs[0] * 3]

    x = tw.tensor([5.0, 0.5], requires_grad=True)
    straight(x).sum().backward()
    close(x.grad, [3, 3])
    z = tw.tensor([5.0, 0.5], requires_grad=True)
    tw.checkpoint(lambda x: (x * x).exp(), z).sum().backward()
    close(z.grad, 2 * np.asarray(z.detach()) * np.exp(np.asarray(z.detach()) ** 2), 1e-4)


def test_leaves_inside_of_jit():
    @tw.jit
    def slope(x):
        z = x.detach().requires_grad_()
        (z**3).sum().backward()
        return z.grad, x

    for k in [2.0, 3.0]:
        assert slope(tw.tensor([k]))[0].tolist() == [3 * k * k]
    # Nothing of the trace is left behind.
    assert (tw.ones(2) + 1).tolist() == [2, 2]
    with pytest.raises(TypeError, match="float"):
        tw.jit(lambda n: n.requires_grad_())(tw.tensor([1]))


def test_files(tmp_path):
    path = tmp_path / "w.safetensors"
    tw.save({"a": tw.tensor([1.0, 2.0]), "deep": {"b": np.arange(3)}}, path)
    got = tw.load(path)
    assert got["a"].tolist() == [1, 2] and got["deep"]["b"].tolist() == [0, 1, 2]
    assert [n for n, _ in tw._native.load_tensors(str(path))] == ["__form__", "a", "deep.b"]
    z = tw.asarray(np.array([[1 + 2j, 3.5 - 1j]]))
    tw.save({"z": z, "w": z.astype("complex64"), "x": z.real}, path)
    back = tw.load(path)
    assert {k: (v.dtype.name, v.tolist()) for k, v in back.items()} == {
        "z": ("complex128", z.tolist()),
        "w": ("complex64", z.tolist()),
        "x": ("float64", z.real.tolist()),
    }
    # The layout for others: pairs of float64, and a note.
    raw = path.read_bytes()
    header = json.loads(raw[8 : 8 + int.from_bytes(raw[:8], "little")])
    assert (header["z"]["dtype"], header["z"]["shape"]) == ("F64", [1, 2, 2]) and header["w"]["dtype"] == "C64"
    assert list(header["__metadata__"]) == ["complex128:z"]
    with pytest.raises(OSError, match="missing.safetensors"):
        tw.load(tmp_path / "missing.safetensors")
    path.write_bytes(b"nonsense")
    with pytest.raises(tw.FormatError):
        tw.load(path)
    with pytest.raises(TypeError, match="a.0 is object"):
        tw.save({"a": [object()]}, path)
    with pytest.raises(ValueError, match="same path"):
        tw.save({"a": {"b": tw.ones(1)}, "a.b": tw.ones(1)}, path)


def test_files_of_training_states(tmp_path):
    path = tmp_path / "state.pt"
    model = tw.nn.Linear(2, 1)
    optimizer = tw.optim.Adam(model.parameters(), lr=0.1)
    model(tw.ones(1, 2)).sum().backward()
    optimizer.step()
    state = {"epoch": 3, "best": float("inf"), "model": model.state_dict(), "optimizer": optimizer.state_dict(), "name": None, "seen": (1, [2.5, "x"])}
    tw.save(state, path)
    found = tw.load(path, map_location="cpu")
    assert {k: found[k] for k in ("epoch", "best", "name", "seen")} == {k: state[k] for k in ("epoch", "best", "name", "seen")}
    other = tw.nn.Linear(2, 1)
    again = tw.optim.Adam(other.parameters())
    other.load_state_dict(found["model"])
    again.load_state_dict(found["optimizer"])
    assert other.weight.tolist() == model.weight.tolist() and again.param_groups[0]["lr"] == 0.1
    assert again.state_dict()["state"][1]["exp_avg"].tolist() == optimizer.state_dict()["state"][1]["exp_avg"].tolist()
    tw.save(tw.ones(2), path)
    assert tw.load(path).tolist() == [1, 1]


def grown(x, w):
    return tw.while_loop(lambda y: y < 20.0, lambda y: y * w, x)


@pytest.mark.parametrize("wrap", [lambda f: f, tw.jit], ids=["eager", "jit"])
def test_a_loop_without_a_bound_has_gradients_of_any_order(wrap):
    x, w = tw.tensor(3.0), tw.tensor(2.0)
    # 3 w**3
    assert wrap(tw.grad(grown))(x, w).item() == 8.0
    assert wrap(tw.grad(grown, argnums=1))(x, w).item() == 36.0
    assert wrap(tw.grad(tw.grad(grown, argnums=1), argnums=1))(x, w).item() == 36.0
    xs = tw.tensor([3.0, 1.0, 30.0])
    assert wrap(tw.vmap(tw.grad(grown), in_axes=(0, None)))(xs, w).tolist() == [8.0, 32.0, 1.0]
    second = tw.grad(tw.grad(grown, argnums=1), argnums=1)
    assert wrap(tw.vmap(second, in_axes=(0, None)))(xs, w).tolist() == [36.0, 160.0, 0.0]


def test_backward_through_a_loop_of_unknown_length():
    w = tw.tensor([0.5, 0.25], requires_grad=True)
    x = tw.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0], [7.0, 8.0]])

    def recurrent(length):
        def body(state):
            i, h = state
            return i + 1, (h * w + x[i]).tanh()

        return tw.while_loop(lambda s: s[0] < length, body, (tw.tensor(0), tw.zeros(2)))[1].sum()

    h = tw.zeros(2)
    for i in range(3):
        h = (h * w + x[i]).tanh()
    h.sum().backward()
    want, w.grad = w.grad.numpy(), None
    recurrent(tw.tensor(3)).backward()
    np.testing.assert_allclose(w.grad.numpy(), want, rtol=1e-6)
    # The body never reads behind the end of x, also where others of a batch go on.
    slopes = tw.vmap(tw.grad(lambda x, n: tw.while_loop(
        lambda s: s[0] < n, lambda s: (s[0] + 1, s[1] + x[s[0]] ** 2), (tw.tensor(0), tw.tensor(0.0)))[1]))  # fmt: skip
    assert slopes(tw.ones(3, 2), tw.tensor([2, 1, 0])).tolist() == [[2, 2], [2, 0], [0, 0]]


def test_no_gradient_flows_through_what_was_made_under_no_grad():
    # Computed at once, later, or never looked at: it is a constant.
    for look in (lambda t: None, lambda t: t.tolist()):
        w = tw.nn.Parameter(tw.tensor([1.0, 2.0]))
        with tw.no_grad():
            target = w * 2
        look(target)
        (w * target).sum().backward()
        assert w.grad.tolist() == [2.0, 4.0]
    x = tw.tensor([1.0, 2.0], requires_grad=True)

    def f(x):
        with tw.no_grad():
            target = x * 2
        return (x * target).sum()

    assert tw.grad(f)(x.detach()).tolist() == [2.0, 4.0]
    assert tw.autograd.grad(f(x), x)[0].tolist() == [2.0, 4.0]
    assert tw.jit(tw.grad(f))(x.detach()).tolist() == [2.0, 4.0]
    # Graphs keep what the scope said.
    traced = [
        tw.jit(f),
        lambda x: tw.utils.checkpoint.checkpoint(f, x, use_reentrant=False),
        lambda x: tw.scan(lambda c, _: (f(x) + 0 * c, c), tw.zeros(()), tw.arange(1))[0],
        lambda x: tw.cond(tw.tensor(True), f, lambda x: x.sum(), x),
    ]
    for g in traced:
        assert tw.autograd.grad(g(x), x)[0].tolist() == [2.0, 4.0]


def test_the_slope_of_an_exponent():
    # PyTorch's: NaN at a negative base, 0 at 0 with an exponent that is not negative.
    b = tw.tensor([-2.0, 0.0, 0.0, 3.0], requires_grad=True)
    e = tw.tensor([2.0, 2.0, 0.0, 0.5], requires_grad=True)
    (b**e).sum().backward()
    np.testing.assert_allclose(b.grad.numpy(), [-4, 0, 0, 0.5 / 3**0.5], rtol=1e-6)
    np.testing.assert_allclose(e.grad.numpy(), [np.nan, 0, 0, 3**0.5 * np.log(3)], rtol=1e-6)
