"""Python functions that graphs call back: eager, jitted, differentiated, batched, from several threads."""

import threading

import numpy as np
import pytest

import talweg as tw


def square(x):
    return np.asarray(x) ** 2


def slope(xs, ys, gs):
    return [2 * xs[0] * gs[0]]


def squared(x, **options):
    return tw.pure_callback(square, x, x, **options)


def test_it_is_called_in_eager_code_jit_and_sessions():
    x = tw.tensor([1.0, 2.0])
    assert squared(x).tolist() == [1.0, 4.0]
    assert tw.jit(lambda x: squared(x * 2) + 1)(x).tolist() == [5.0, 17.0]
    fed = tw.placeholder("float32", [2])
    assert tw.Session().run(squared(fed).sum(), {fed: [3.0, 4.0]}).item() == 25.0


def test_several_results_and_arguments_by_name():
    def parts(x, y, scale):
        return np.asarray(x) + np.asarray(y), (np.asarray(x) * scale).astype(np.int32)

    types = (tw.ShapeDtypeStruct((2,), tw.float32), tw.ShapeDtypeStruct((2,), tw.int32))
    a, b = tw.pure_callback(parts, types, tw.ones(2), tw.ones(2), scale=3)
    assert a.tolist() == [2.0, 2.0] and b.tolist() == [3, 3] and b.dtype == tw.int32


def test_calls_share_a_plan():
    calls = []

    def count(x):
        calls.append(1)
        return np.asarray(x)

    step = tw.jit(lambda x: tw.pure_callback(count, x, x) * 2)
    for _ in range(3):
        step(tw.ones(2)).eval()
    assert len(calls) == 3 and step.traces == 1


def test_gradients_of_first_and_second_order():
    f = lambda x: squared(x, gradient=slope).sum()  # noqa: E731
    x = tw.tensor([1.0, 3.0])
    assert tw.grad(f)(x).tolist() == [2.0, 6.0]
    assert tw.jit(tw.grad(f))(x).tolist() == [2.0, 6.0]
    assert tw.grad(lambda x: tw.grad(f)(x).sum())(x).tolist() == [2.0, 2.0]
    w = tw.tensor([2.0], requires_grad=True)
    squared(w, gradient=slope).sum().backward()
    assert w.grad.tolist() == [4.0]


def test_without_a_gradient_differentiating_says_so():
    with pytest.raises(tw.GradientError, match=r"pure_callback\(square\): it has no gradient: give it one"):
        tw.grad(lambda x: squared(x).sum())(tw.ones(2))
    rule = lambda xs, ys, gs: [gs[0], gs[0]]  # noqa: E731
    with pytest.raises(tw.ArgumentError, match="2 gradients, not one for each of 1 inputs"):
        tw.grad(lambda x: squared(x, gradient=rule).sum())(tw.ones(2))
    rule = lambda xs, ys, gs: [gs[0].sum()]  # noqa: E731
    with pytest.raises(tw.ShapeError, match="has shape"):
        tw.grad(lambda x: squared(x, gradient=rule).sum())(tw.ones(2))


@pytest.mark.parametrize("method, shapes", [
    (None, [((2,), (2,))] * 3),
    ("sequential", [((2,), (2,))] * 3),
    ("expand_dims", [((3, 2), (1, 2))]),
    ("broadcast_all", [((3, 2), (3, 2))]),
])
def test_vmap_calls_it_as_it_is_told(method, shapes):
    seen = []

    def product(a, b):
        seen.append((tuple(a.shape), tuple(b.shape)))
        return np.asarray(a) * np.asarray(b)

    def f(x, y):
        rule = lambda xs, ys, gs: [gs[0] * xs[1], gs[0] * xs[0]]  # noqa: E731
        return tw.pure_callback(product, x, x, y, vmap_method=method, gradient=rule)

    xs, y = tw.arange(6.0).reshape(3, 2), tw.tensor([2.0, 3.0])
    batched = tw.vmap(f, in_axes=(0, None))
    assert batched(xs, y).tolist() == (xs * y).tolist() and seen == shapes
    of_x, of_y = tw.grad(lambda x, y: batched(x, y).sum(), argnums=(0, 1))(xs, y)
    assert of_x.tolist() == [[2.0, 3.0]] * 3 and of_y.tolist() == [6.0, 9.0]


def test_an_unknown_method_is_named():
    with pytest.raises(tw.ArgumentError, match='"parallel" is none of sequential'):
        squared(tw.ones(2), vmap_method="parallel")


class Mine(Exception):
    """An exception of the program."""


@pytest.mark.parametrize("wrapped", [lambda f: f, tw.jit], ids=["eager", "jit"])
def test_what_it_raises_comes_out_with_its_traceback(wrapped):
    def fails(x):
        raise Mine("in the callback")

    with pytest.raises(Mine, match="in the callback") as caught:
        wrapped(lambda x: tw.pure_callback(fails, x, x).sum())(tw.ones(2)).item()
    assert [entry.name for entry in caught.traceback][-1] == "fails"


@pytest.mark.parametrize("given, what", [
    (lambda x: np.zeros(3, np.float32), r"shape \[3\], but \[2\]"),
    (lambda x: (np.zeros(2), np.zeros(2)), "2 results, but 1"),
    (lambda x: None, "0 results, but 1"),
])
def test_results_that_were_not_announced_are_refused(given, what):
    with pytest.raises(tw.ArgumentError, match=what):
        tw.pure_callback(given, tw.ones(2), tw.ones(2)).eval()
    with pytest.raises(tw.DTypeError, match="float32, but int64"):
        tw.pure_callback(lambda x: x, tw.zeros(2, dtype="int64"), tw.ones(2)).eval()
    with pytest.raises(tw.DTypeError, match="shape and dtype"):
        tw.pure_callback(square, "float32", tw.ones(2))


def test_effects_happen_in_order_whether_or_not_they_are_used():
    seen = []
    note = seen.append

    def show(x):
        note(float(np.asarray(x)))

    tw.io_callback(show, None, tw.tensor(1.0))
    assert seen == [1.0], "eager code calls at once"

    @tw.jit
    def step(x):
        tw.io_callback(show, None, x)
        tw.io_callback(show, None, x + 1)
        tw.io_callback(show, None, x)
        return x * 2

    step(tw.tensor(5.0))
    step(tw.tensor(7.0))
    assert seen == [1.0, 5.0, 6.0, 5.0, 7.0, 8.0, 7.0]
    tw.grad(lambda x: (tw.io_callback(show, None, x), x * x)[1])(tw.tensor(3.0)).eval()
    assert seen[7:] == [3.0]


def test_debug_print(capsys):
    tw.jit(lambda x: (tw.debug.print("sum {} of {x}", x.sum(), x=x), x)[1])(tw.ones(2)).eval()
    assert capsys.readouterr().out == "sum 2.0 of [1.0, 1.0]\n"


def test_a_callback_may_compute_and_look_at_variables():
    w = tw.Variable([1.0, 2.0])
    seen = []

    def look(x):
        seen.append(w.tolist())
        return (x @ tw.ones(2, 2)).sum(0, keepdims=True).expand(2) * 0 + x

    @tw.jit
    def step(x):
        y = tw.pure_callback(look, x, x)
        w.assign(w * 0.5 + y)
        return y.sum()

    for _ in range(3):
        step(tw.ones(2)).item()
    assert seen == [[1.0, 2.0], [1.5, 2.0], [1.75, 2.0]], "as before the step"
    assert w.tolist() == [1.875, 2.0]


def test_threads_do_not_wait_for_each_other_for_ever():
    w = tw.Variable(tw.ones(64))
    step = tw.jit(lambda x: (w.assign(w + squared(x, gradient=slope)), w.sum())[1])
    errors = []

    def work(k):
        try:
            for _ in range(20):
                step(tw.ones(64) * k).item()
                w.numpy()
                squared(w * 1.0).sum().item()
        except Exception as e:  # noqa: BLE001
            errors.append(e)

    threads = [threading.Thread(target=work, args=(k,), daemon=True) for k in range(4)]
    [t.start() for t in threads]
    [t.join(timeout=60) for t in threads]
    assert not any(t.is_alive() for t in threads), "a deadlock"
    assert not errors, errors


def test_in_a_trainer():
    seen = []

    class Model(tw.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = tw.nn.Linear(2, 1)

        def forward(self, x):
            y = self.layer(x)
            tw.io_callback(lambda y: seen.append(tuple(y.shape)), None, y)
            return squared(y, gradient=slope)

    model = Model()
    x = tw.randn(16, 2)
    data = [(x[i : i + 4], tw.ones(4, 1)) for i in range(0, 16, 4)]
    trainer = tw.train.Trainer(model, tw.optim.SGD(model.parameters(), lr=0.01), data, epochs=2, jit=True)
    before = model.layer.weight.tolist()
    trainer.fit(lambda x, y: ((model(x) - y) ** 2).mean())
    assert trainer.step == 8 and seen == [(4, 1)] * 8 and model.layer.weight.tolist() != before


def test_effects_inside_of_transformations():
    seen = []

    def show(x):
        seen.append(float(np.asarray(x)))

    def f(x):
        tw.io_callback(show, None, x)
        return x * x

    tw.jit(tw.grad(f))(tw.tensor(3.0)).eval()
    assert seen == [3.0]
    tw.vmap(f)(tw.arange(3.0)).eval()
    assert seen[1:] == [0.0, 1.0, 2.0]
    with pytest.raises(tw.ArgumentError, match="runs only where its result is used"):
        tw.scan(lambda c, x: (c + f(x), x), tw.tensor(0.0), tw.arange(3.0))

    def used(c, x):
        told = tw.io_callback(lambda v: (show(v), v)[1], x, x)
        return c + told, told

    tw.scan(used, tw.tensor(0.0), tw.arange(3.0))[0].eval()
    assert seen[4:] == [0.0, 1.0, 2.0]
