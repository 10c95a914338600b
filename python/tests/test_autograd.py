"""Gradients of imperative code, functions of functions, compilation: against hand arithmetic and finite differences."""

import gc
import warnings

import numpy as np
import pytest

import talweg as tw
from talweg.autograd import Function, gradcheck, gradgradcheck


def close(a, b, tolerance=1e-6):
    np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=tolerance, atol=tolerance)


def leaf(*x):
    return tw.tensor(list(x), dtype=tw.float64, requires_grad=True)


# autograd.grad and backward.


def test_gradients_of_any_order():
    x = leaf(0.5, 2.0)
    y = (x**4).sum()
    found = []
    for _ in range(4):
        (y,) = tw.autograd.grad(y.sum(), x, create_graph=True)
        found.append(y.tolist())
    expected = [[4 * v**3 for v in (0.5, 2.0)], [12 * v**2 for v in (0.5, 2.0)], [24 * v for v in (0.5, 2.0)], [24.0, 24.0]]
    close(found, expected)


def test_gradients_of_leaves_computed_tensors_and_parameters():
    layer = tw.nn.Linear(2, 1)
    x = tw.tensor([[1.0, 2.0]], requires_grad=True)
    h = layer(x)
    y = (h * h).sum()
    gx, gh, gw, gb = tw.autograd.grad(y, [x, h, layer.weight, layer.bias])
    close(gh, 2 * h.detach())
    close(gw, gh.item() * np.array([[1.0, 2.0]]))
    close(gx, gh.item() * np.asarray(layer.weight.detach()))
    close(gb, [gh.item()])
    assert layer.weight.grad is None and x.grad is None


def test_second_derivatives_match_differences():
    f = lambda x, w: ((x @ w).tanh() * x.sum()).exp()  # noqa: E731
    x = tw.tensor(np.linspace(-0.5, 0.4, 6).reshape(2, 3), dtype=tw.float64, requires_grad=True)
    w = tw.tensor(np.linspace(0.3, -0.2, 6).reshape(3, 2), dtype=tw.float64, requires_grad=True)
    assert gradcheck(f, (x, w)) and gradgradcheck(f, (x, w))


def test_a_wrong_gradient_is_found():
    class Wrong(Function):
        @staticmethod
        def forward(ctx, x):
            return x * x

        @staticmethod
        def backward(ctx, g):
            return g * 3.0

    x = leaf(0.5, 2.0)
    with pytest.raises(tw.GradientError, match="differs from finite differences"):
        gradcheck(Wrong.apply, x)
    assert not gradcheck(Wrong.apply, x, raise_exception=False)


def test_backward_twice():
    x = leaf(1.0, 2.0)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [4.0, 8.0]
    with pytest.raises(tw.GradientError, match="retain_graph=True") as e:
        y.backward()
    assert isinstance(e.value, RuntimeError) and x.grad.tolist() == [4.0, 8.0]


def test_hooks_come_and_go():
    x = leaf(1.0, 2.0)
    with x.register_hook(lambda g: g * 10):
        x.sum().backward()
    x.sum().backward()
    assert x.grad.tolist() == [11.0, 11.0]
    with pytest.raises(KeyError):
        x.register_hook(lambda g: {}["what a hook raises comes out"])
        x.sum().backward()


def test_jit_sees_hooks():
    w = leaf(1.0, 2.0)

    @tw.jit
    def slope(x):
        (g,) = tw.autograd.grad((w * x).sum(), w)
        return g

    x = tw.tensor([3.0, 4.0], dtype=tw.float64)
    assert slope(x).tolist() == [3.0, 4.0]
    handle = w.register_hook(lambda g: -g)
    assert slope(x).tolist() == [-3.0, -4.0]
    handle.remove()
    assert slope(x).tolist() == [3.0, 4.0]


def test_grad_fn_and_flags():
    x = leaf(1.0)
    y = x * 2
    assert x.grad_fn is None and y.grad_fn.name() == "MulBackward0" and y.grad_fn and not y.is_leaf
    assert [f.name() for f, _ in y.grad_fn.next_functions if f] == ["AccumulateGrad"]
    d = y.detach()
    assert d.is_leaf and not d.requires_grad and d.grad_fn is None and (d * 2).is_leaf
    y.grad = tw.ones(1, dtype=tw.float64)
    assert y.grad.tolist() == [1.0]


def test_functions_are_not_kept_alive():
    class Keep(Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(y)
            ctx.probe = Probe()
            return y

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    alive = []

    class Probe:
        def __init__(self):
            alive.append(1)

        def __del__(self):
            alive.pop()

    x = leaf(0.0, 1.0)
    y = Keep.apply(x).sum()
    y.backward()
    close(x.grad, np.exp([0.0, 1.0]))
    del y
    gc.collect()
    assert not alive


def test_functions_compute_on_real_values():
    class Numpy(Function):
        @staticmethod
        def forward(ctx, x, scale):
            ctx.scale = scale
            return tw.tensor(np.sort(x.numpy()) * scale)

        @staticmethod
        def backward(ctx, g):
            return g * ctx.scale, None

    x = leaf(3.0, 1.0)
    y = Numpy.apply(x, 2.0)
    assert y.tolist() == [2.0, 6.0] and y.requires_grad
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
    with pytest.raises(tw.GradientError, match="2 gradients for 1 arguments|1 gradients for 2 arguments"):

        class Short(Numpy):
            @staticmethod
            def backward(ctx, g):
                return g

        Short.apply(x, 2.0).sum().backward()
    with pytest.raises(TypeError, match="apply"):
        Numpy(x, 2.0)


class Cube(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x**2


def test_functions_under_transformations():
    x = tw.tensor([1.0, 2.0], dtype=tw.float64)
    f = lambda x: Cube.apply(x).sum()  # noqa: E731
    assert tw.grad(f)(x).tolist() == [3.0, 12.0]
    assert tw.jit(tw.grad(f))(x).tolist() == [3.0, 12.0]
    assert tw.vmap(tw.grad(lambda x: Cube.apply(x)))(x).tolist() == [3.0, 12.0]
    assert tw.hessian(f)(x).tolist() == [[6.0, 0.0], [0.0, 12.0]]
    w = leaf(1.0, 2.0)
    tw.jit(lambda w: Cube.apply(w).sum())(w).backward()
    assert w.grad.tolist() == [3.0, 12.0]


def test_anomalies_name_the_op():
    x = leaf(0.0)
    with tw.autograd.detect_anomaly(), pytest.raises(tw.NumericsError, match="test_autograd.py"):
        (x.sqrt() * 0).sum().backward()
        x.grad.tolist()
    x.grad = None
    (x.sqrt() * 0).sum().backward()
    assert np.isnan(x.grad.tolist()[0])


def test_grad_modes():
    x = leaf(1.0)
    with tw.inference_mode():
        assert not (x * 2).requires_grad
    with tw.no_grad(), tw.autograd.enable_grad():
        assert (x * 2).requires_grad
    with tw.autograd.set_grad_enabled(False):
        assert not (x * 2).requires_grad
    for name in ["saved_tensors_hooks", "register_multi_grad_hook"]:
        with pytest.raises(tw.GradientError, match="does not exist"):
            getattr(tw.autograd.graph, name)


# func.


def test_derivatives_of_functions():
    x = tw.tensor([1.0, 2.0], dtype=tw.float64)
    f = lambda x: x**2 * x.sum()  # noqa: E731
    j = [[2 * 3 + 1, 1], [4, 4 * 3 + 4]]
    close(tw.func.jacrev(f)(x), j)
    close(tw.func.jacfwd(f)(x), j)
    close(tw.autograd.functional.jacobian(f, x), j)
    close(tw.func.vjp(f, x)[1](tw.tensor([1.0, 0.0], dtype=tw.float64))[0], j[0])
    close(tw.vjp(f, x)[1](tw.tensor([0.0, 1.0], dtype=tw.float64))[0], j[1])
    close(tw.jvp(f, (x,), (tw.tensor([1.0, 0.0], dtype=tw.float64),))[1], np.array(j)[:, 0])
    value, slope = tw.value_and_grad(lambda x: (x**3).sum())(x)
    close(value, 9), close(slope, [3, 12])
    close(tw.func.hessian(lambda x: (x**3).sum())(x), [[6, 0], [0, 12]])
    close(tw.autograd.functional.hvp(lambda x: (x**3).sum(), x, tw.ones_like(x))[1], [6, 12])


def test_nested_transformations_and_jit():
    x = tw.tensor([0.5, 2.0], dtype=tw.float64)
    fourth = lambda x: x**4  # noqa: E731
    second = tw.vmap(tw.grad(tw.grad(fourth)))
    close(second(x), 12 * np.array([0.5, 2.0]) ** 2)
    close(tw.jit(second)(x), 12 * np.array([0.5, 2.0]) ** 2)
    close(tw.func.jacrev(tw.vmap(tw.grad(fourth)))(x), np.diag(12 * np.array([0.5, 2.0]) ** 2))
    close(tw.grad(lambda s: tw.vmap(tw.grad(lambda x: s * x**2))(x).sum())(tw.tensor(3.0, dtype=tw.float64)), 5.0)
    close(tw.grad(lambda x: tw.jit(fourth)(x).sum())(x), 4 * np.array([0.5, 2.0]) ** 3)
    # Levels do not see each other's arguments: d/dx (x * d/dy (x + y)) = 1.
    f = lambda x: x * tw.grad(lambda y: x + y)(tw.tensor(1.0, dtype=tw.float64))  # noqa: E731
    close(tw.grad(f)(tw.tensor(5.0, dtype=tw.float64)), 1.0)


def test_functions_may_look_at_values():
    f = lambda x: x * 2 if x > 0 else -x  # noqa: E731
    assert [tw.grad(f)(tw.tensor(v)).item() for v in (3.0, -3.0)] == [2.0, -1.0]


def test_random_numbers_under_vmap():
    x = tw.zeros(4, 3)
    with pytest.raises(ValueError, match='randomness="different"'):
        tw.vmap(lambda x: x + tw.rand(3))(x)
    different = tw.vmap(lambda x: x + tw.rand(3), randomness="different")(x).tolist()
    assert len({tuple(r) for r in different}) == 4
    same = tw.vmap(lambda x: x + tw.rand(3), randomness="same")(x).tolist()
    assert len({tuple(r) for r in same}) == 1


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda: tw.grad(tw.ones(2).sum(), [tw.ones(2)]), r"tw\.autograd\.grad\(cost, \[w, b\]\)"),
        (lambda: tw.func.functionalize, "call it as it is"),
        (lambda: tw.grad(lambda x: 3.0)(tw.ones(2)), "must return a tensor, not float"),
        (lambda: tw.grad(lambda x: x)(tw.ones(2)), r"returns float32\[2\]"),
        (lambda: tw.grad(lambda x: x.sum(), argnums=2)(tw.ones(2)), "there is no argument 2: 1 were given"),
        (lambda: tw.grad(lambda x: 0.0)(3), "no tensor in the arguments"),
        (lambda: tw.vmap(lambda x, y: x, in_dims=(0,))(tw.ones(2), tw.ones(2)), "in_dims"),
        (lambda: tw.vmap(lambda x, y: x)(tw.ones(2), 3.0), "say None for it"),
        (lambda: tw.vmap(lambda x, y: x)(tw.ones(2), tw.ones(3)), "batch sizes differ"),
        (lambda: tw.jvp(lambda x: x, (tw.ones(2),), (tw.ones(3),)), "tangent of shape"),
    ],
)
def test_what_transformations_say(call, text):
    with pytest.raises(tw.Error, match=text) as e:
        call()
    assert f"test_autograd.py:{call.__code__.co_firstlineno}" in str(e.value)


# compile, checkpoint, amp.


def test_compiled_modules():
    tw.manual_seed(0)
    model = tw.nn.Sequential(tw.nn.Linear(2, 4), tw.nn.Dropout(0.5), tw.nn.Linear(4, 1))
    compiled = tw.compile(model)
    x = tw.ones(3, 2)
    assert isinstance(compiled, tw.nn.Module) and sorted(compiled.state_dict())[0] == "_orig_mod.0.bias"
    assert compiled.eval() is compiled and not model.training
    close(compiled(x), model(x))
    assert [a is b for a, b in zip(compiled.parameters(), model.parameters())] == [True] * 4
    optimizer = tw.optim.SGD(compiled.parameters(), lr=0.1)
    before = compiled(x).sum().item()
    compiled(x).sum().backward()
    optimizer.step()
    assert compiled(x).sum().item() < before and compiled(x).tolist() == model(x).tolist()


def test_compiled_functions():
    calls = []

    @tw.compile(dynamic=True, mode="reduce-overhead")
    def f(x):
        calls.append(1)
        return x * 2

    assert [f(tw.ones(2)).tolist() for _ in range(3)] == [[2.0, 2.0]] * 3 and len(calls) == 1

    @tw.compile
    def looks(x):
        return x if x.sum() > 0 else -x

    assert looks(tw.ones(2)).tolist() == looks(-tw.ones(2)).tolist() == [1.0, 1.0]
    for wrong in [{"backend": "tvm"}, {"mode": "fast"}, {"options": {"a": 1}}]:
        with pytest.raises(ValueError, match="compile: there is no"):
            tw.compile(looks, **wrong)
    with pytest.raises(tw.TraceError, match="tw.where"):
        tw.compile(lambda x: x if x.sum() > 0 else -x, fullgraph=True)(tw.ones(2))
    assert tw.compile(calls.append, disable=True) == calls.append


def test_checkpoints():
    from talweg.utils.checkpoint import checkpoint, checkpoint_sequential

    x = leaf(0.5, 1.0)
    checkpoint(lambda x, *, k: (x * k).exp().sum(), x, use_reentrant=False, k=2.0).backward()
    close(x.grad, 2 * np.exp([1.0, 2.0]))
    model = tw.nn.Sequential(*[tw.nn.Linear(3, 3) for _ in range(5)])
    y = tw.ones(2, 3)
    checkpoint_sequential(model, 2, y, use_reentrant=False).sum().backward()
    found = [p.grad.tolist() for p in model.parameters()]
    model.zero_grad()
    model(y).sum().backward()
    for a, p in zip(found, model.parameters()):
        close(a, p.grad)
    with pytest.raises(ValueError, match="context_fn"):
        checkpoint(lambda x: x, x, context_fn=lambda: None)


def test_running_statistics_under_transformations():
    def make():
        tw.manual_seed(0)
        return tw.nn.Sequential(tw.nn.Linear(2, 3), tw.nn.BatchNorm1d(3), tw.nn.Tanh()), tw.randn(4, 2)

    plain, x = make()
    (plain(x) ** 2).sum().backward()
    for wrap in [lambda m: lambda x: tw.utils.checkpoint.checkpoint(m, x, use_reentrant=False), tw.compile]:
        model, x = make()
        (wrap(model)(x) ** 2).sum().backward()
        close(model[1].running_mean, plain[1].running_mean)
        assert model[1].num_batches_tracked.item() == 1
        for p, q in zip(model.parameters(), plain.parameters()):
            close(p.grad, q.grad, 1e-5)
    before = plain[1].running_mean.tolist()
    with pytest.raises(tw.TraceError, match="a variable is assigned"):
        tw.vmap(lambda x: plain(x))(tw.ones(3, 4, 2))
    assert plain[1].running_mean.tolist() == before


def test_autocast_by_device():
    x = tw.ones(2, 2)
    for scope in [tw.autocast("cpu"), tw.amp.autocast(device_type="cpu", dtype=tw.bfloat16), tw.autocast("bfloat16")]:
        with scope:
            assert (x @ x).dtype == tw.bfloat16 and tw.is_autocast_enabled() and tw.get_autocast_dtype("cpu") == tw.bfloat16
    assert (x @ x).dtype == tw.float32 and not tw.is_autocast_enabled()
    if not tw.cuda.is_available():
        with pytest.warns(UserWarning, match="there is no GPU"), tw.autocast("cuda"):
            assert (x @ x).dtype == tw.float32
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with tw.autocast("cuda", enabled=False):
            assert (x @ x).dtype == tw.float32


def test_scaled_gradients_are_clipped_as_they_are():
    def train(scaler):
        w = tw.nn.Parameter(tw.tensor([3.0, -4.0]))
        optimizer = tw.optim.SGD([w], lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            loss = (w * w).sum()
            if scaler is None:
                loss.backward()
            else:
                scaler.scale(loss).backward()
                scaler.unscale_(optimizer)
            tw.nn.utils.clip_grad_norm_([w], 1.0)
            if scaler is None:
                optimizer.step()
            else:
                scaler.step(optimizer)
                scaler.update()
        return w.detach()

    close(train(tw.amp.GradScaler("cpu")), train(None))
    assert tw.cuda.amp.GradScaler(enabled=False).scale(3.0) == 3.0
    scaler = tw.GradScaler(init_scale=4.0, growth_interval=2)
    other = tw.GradScaler()
    other.load_state_dict(scaler.state_dict())
    assert other.state_dict() == scaler.state_dict() and other.get_scale() == 4.0


# jit: what a traced function must not do silently.


def test_arguments_are_changed_in_place():
    @tw.jit
    def f(a, d):
        a.mul_(2)
        d["x"][0] = 7.0
        return a.sum()

    a, x = tw.ones(2), tw.zeros(3)
    view = a[0]
    for n in (1, 2):
        assert f(a, {"x": x}).item() == 2.0 * 2**n
    assert a.tolist() == [4.0, 4.0] and x.tolist() == [7.0, 0.0, 0.0] and view.item() == 4.0 and f.traces == 1
    w = leaf(1.0)
    with pytest.raises(tw.GradientError, match="cannot be changed in place"):
        tw.jit(lambda w: w.add_(1.0))(w)


def test_arguments_are_returned_as_they_are():
    f = tw.jit(lambda a, b: {"a": a.add_(1), "b": b, "c": a + b})
    a, b = tw.zeros(2), tw.ones(2)
    for n in (1.0, 2.0):
        out = f(a, b=b)
        assert out["a"] is a and out["b"] is b and a.tolist() == [n, n] and out["c"].tolist() == [n + 1] * 2


OUTSIDE = tw.zeros(2)
KEPT = []


def writes_outside(x):
    OUTSIDE.add_(x)
    return x


def writes_a_dict(d):
    d["y"] = d["x"] * 2
    return d["x"]


def writes_a_list(items):
    items.append(items[0] * 2)
    return items[0]


@pytest.mark.parametrize(
    "f, args, text",
    [
        (writes_outside, (tw.ones(2),), "a tensor from outside is changed in place"),
        (writes_a_dict, ({"x": tw.ones(2)},), "list or dict among the arguments"),
        (writes_a_list, ([tw.ones(2)],), "list or dict among the arguments"),
        (lambda x: x[x > 0], (tw.ones(2),), "unknown while the function is traced"),
        (lambda x: x.sum().item(), (tw.ones(2),), "unknown while the function is traced"),
        (lambda x: x if x.sum() > 0 else -x, (tw.ones(2),), "tw.where or tw.cond"),
        (lambda x: x.numpy(), (tw.ones(2),), "move this line out"),
        (lambda x: float(x.sum()), (tw.ones(2),), "move this line out"),
        (lambda x: x.nonzero(), (tw.ones(2),), "move this line out"),
        (lambda x: x.tolist(), (tw.ones(2),), "move this line out"),
    ],
)
def test_jit_says_what_to_write_instead(f, args, text):
    with pytest.raises(tw.TraceError, match=text) as e:
        tw.jit(f)(*args)
    assert "Session" not in str(e.value) and "test_autograd.py" in str(e.value)
    assert OUTSIDE.tolist() == [0.0, 0.0]


def test_what_leaks_out_of_a_trace_says_so():
    @tw.jit
    def f(x):
        KEPT.append(x * 2)
        return x + 1

    assert f(tw.ones(2)).tolist() == [2.0, 2.0]
    for use in [lambda: KEPT[0].tolist(), lambda: (KEPT[0] + 1).sum().item(), lambda: tw.jit(lambda x: x + KEPT[0])(tw.ones(2))]:
        with pytest.raises(tw.TraceError, match="return it from the function"):
            use()
