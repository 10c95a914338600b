"""What a jitted function is keyed on, what it keeps alive, and what it can be used for."""

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest

import talweg as tw


def zeros(t):
    return int((t.numpy() == 0).sum())


@pytest.mark.parametrize("first", [True, False])
def test_dropout_follows_train_and_eval(first):
    model = tw.nn.Sequential(tw.nn.Dropout(0.5)).train(first)
    f, x = tw.jit(model), tw.ones(1000)
    for training in [first, not first, first, not first]:
        model.train(training)
        assert (300 < zeros(f(x)) < 700) if training else zeros(f(x)) == 0
    assert f.traces == 2


def test_batch_norm_moves_its_averages_in_training_only():
    norm = tw.nn.BatchNorm1d(3)
    f, x = tw.jit(norm), tw.randn(64, 3) + 5.0
    assert abs(f(x).mean().item()) < 1e-5
    mean = norm.running_mean.numpy().copy()
    assert mean.min() > 0.3
    norm.eval()
    for _ in range(3):
        assert f(x).mean().item() > 1.0
        np.testing.assert_array_equal(norm.running_mean.numpy(), mean)
    norm.train()
    f(x)
    assert (norm.running_mean.numpy() > mean).all()


def test_modules_of_ones_own_are_keyed_by_their_mode():
    class Twofold(tw.nn.Module):
        def forward(self, x):
            return (x, x * 2) if self.training else x

    model = Twofold()
    f = tw.jit(model)
    assert len(f(tw.ones(2))) == 2
    model.eval()
    assert f(tw.ones(2)).tolist() == [1, 1]
    model.training = True
    assert len(f(tw.ones(2))) == 2
    copied = copy.deepcopy(model)
    copied.eval()
    assert model.training and not copied.training
    layer = pickle.loads(pickle.dumps(tw.nn.Dropout(0.5).eval()))
    assert not layer.training and zeros(layer(tw.ones(9))) == 0


def test_a_mode_set_by_the_function_itself_is_no_key():
    drop = tw.nn.Dropout(0.5)

    @tw.jit
    def evaluate(x):
        drop.eval()
        y = drop(x)
        drop.train()
        return y

    assert zeros(evaluate(tw.ones(100))) == 0
    drop.eval()
    assert zeros(evaluate(tw.ones(100))) == 0 and evaluate.traces == 1


def test_scopes_around_the_call_are_keyed():
    w = tw.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    f = tw.jit(lambda x: x @ w)
    x = tw.ones(2, 2)
    assert f(x).dtype == tw.float32
    with tw.autocast("bfloat16"):
        assert f(x).dtype == tw.bfloat16
    assert f(x).dtype == tw.float32 and f.traces == 2
    seen = tw.jit(lambda x: (x @ w) * (2.0 if w.requires_grad else 1.0))
    first = seen(x).numpy()
    w.requires_grad = False
    np.testing.assert_array_equal(seen(x).numpy(), first / 2)
    w.requires_grad = True
    np.testing.assert_array_equal(seen(x).numpy(), first)
    with tw.no_grad():
        f(x)
    assert f.traces == 3


def test_gradients_from_before_the_first_call_are_used_once():
    w = tw.tensor([1.0], requires_grad=True)
    optimizer = tw.optim.SGD([w], lr=1.0)

    @tw.jit
    def step():
        (w * 3.0).sum().backward()
        optimizer.step()
        return w * 1.0

    (w * 10.0).sum().backward()
    assert step().item() == 1.0 - 13.0
    assert step().item() == 1.0 - 13.0 - 3.0
    assert step().item() == 1.0 - 13.0 - 6.0


def test_a_module_that_jits_its_own_forward_is_freed():
    class Model(tw.nn.Module):
        def __init__(self):
            self.layer = tw.nn.Linear(2, 2)
            self.forward = tw.jit(self.forward)

        def forward(self, x, scale=None):
            return self.layer(x) * (scale or 1.0)

    class Own(tw.optim.Rule):
        def update(self, param, grad, state, lr, step, weight_decay):
            return param - lr * grad, {}

    def called():
        model = Model()
        model(tw.ones(1, 2)), model(tw.ones(1, 2), scale=2.0), model(tw.ones(3, 2))
        return model

    def static():
        model = tw.nn.Linear(2, 2)
        model.step = tw.jit(lambda m, x: m(x))
        model.step(model, tw.ones(1, 2))
        return model

    def optimizer():
        return Own([tw.nn.Parameter(tw.ones(2))], lr=0.1)

    def result():
        model = tw.nn.Linear(2, 2)
        model.both = tw.jit(lambda x: (x, model))
        model.both(tw.ones(2))
        return model

    for make in [Model, called, static, optimizer, result]:
        alive = [weakref.ref(make()) for _ in range(30)]
        gc.collect()
        assert sum(r() is not None for r in alive) == 0, make


def test_a_jitted_function_says_why_it_cannot_be_pickled():
    f = tw.jit(lambda x: x + 1)
    for way in [pickle.dumps, copy.deepcopy]:
        with pytest.raises(TypeError, match="pickle the function itself"):
            way(f)


def test_gradients_flow_through_jitted_results():
    x = tw.tensor([1.0, 2.0, 3.0], requires_grad=True)
    f = tw.jit(lambda x: (x * x, x.sum()))
    y, total = f(x)
    assert y.requires_grad and total.requires_grad
    (y.sum() * 2.0 + total).backward()
    assert x.grad.tolist() == [5.0, 9.0, 13.0]
    with tw.no_grad():
        assert not f(x)[0].requires_grad
    assert not f(x.detach())[0].requires_grad
    assert tw.jit(lambda x: None)(x) is None


def test_a_model_is_trained_through_its_jitted_forward():
    def losses(wrap):
        tw.manual_seed(3)
        model = tw.nn.Sequential(tw.nn.Linear(4, 16), tw.nn.Dropout(0.5), tw.nn.Tanh(), tw.nn.Linear(16, 1))
        optimizer = tw.optim.Adam(model.parameters(), lr=0.01)
        forward, x, out = wrap(model), tw.randn(32, 4), []
        for _ in range(5):
            loss = (forward(x) - x.sum(1, keepdims=True)).square().mean()
            loss.backward()
            optimizer.step()
            out.append(loss.item())
        return out

    # Dropout draws for the gradient what it drew for the result.
    np.testing.assert_allclose(losses(tw.jit), losses(lambda f: f), rtol=1e-5)
