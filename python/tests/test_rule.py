"""Custom optimizers do what the built-in ones do, wherever these do it."""

import re
import subprocess
import sys

import pytest
import talweg as tw
from test_launch import TALWEG

RULE = """
import talweg as tw

class Momentum(tw.optim.Rule):
    defaults = {"lr": 1e-3, "momentum": 0.0, "weight_decay": 0.0}
    slots = {"momentum": 0.0}

    def update(self, param, grad, state, lr, step, weight_decay):
        grad = grad + weight_decay * param
        # PyTorch's momentum begins with the first gradient.
        momentum = self.settings["momentum"] * state["momentum"] + grad
        return param - lr * momentum, {"momentum": momentum}
"""
names = {}
exec(RULE, names)
Momentum = names["Momentum"]
SETTINGS = dict(lr=0.1, momentum=0.9, weight_decay=0.01)


def trained(make, jit):
    tw.manual_seed(0)
    model = tw.nn.Sequential(tw.nn.Linear(3, 4), tw.nn.Tanh(), tw.nn.Linear(4, 1))
    first, second = model[0].parameters(), model[2].parameters()
    optimizer = make([{"params": first}, {"params": second, "lr": 0.05, "weight_decay": 0.1}], **SETTINGS)
    x = tw.randn(8, 3)

    def step(x):
        loss = (model(x) - x.sum(1, keepdims=True)).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    step = tw.jit(step) if jit else step
    losses = [step(x).item() for _ in range(4)]
    state = optimizer.state_dict()
    return losses, {n: v.numpy().tolist() for n, v in model.state_dict().items()}, state


@pytest.mark.parametrize("jit", [False, True])
def test_a_rule_of_ones_own_is_as_good_as_the_built_in_one(jit):
    losses, weights, state = trained(Momentum, jit)
    expected, wanted, built_in = trained(tw.optim.SGD, jit)
    assert losses == pytest.approx(expected, rel=1e-5) and losses[-1] < losses[0]
    for name, values in weights.items():
        assert tw.tensor(values).numpy() == pytest.approx(tw.tensor(wanted[name]).numpy(), abs=1e-6)
    assert list(state["state"][0]) == ["step", "momentum"] and list(built_in["state"][0]) == ["momentum_buffer"]
    assert [g["lr"] for g in state["param_groups"]] == [0.1, 0.05]


def test_graphs_and_states_take_it_too():
    w = tw.Variable(tw.tensor([1.0, 2.0]))
    optimizer = Momentum([w], lr=0.5)
    x = tw.placeholder("float32", [2])
    train = optimizer.minimize((w * x).sum())
    tw.Session().run([train], {x: tw.ones(2)})
    assert w.tolist() == [0.5, 1.5]
    other = Momentum([w], lr=0.1)
    other.load_state_dict(optimizer.state_dict())
    assert other.lr == 0.5 and other.state_dict()["state"][0]["momentum"].tolist() == [1, 1]


def test_what_is_wrong_is_told():
    def error(update, slots={"a": 0.0}):
        made = type("Made", (tw.optim.Rule,), {"slots": slots, **({"update": update} if update else {})})
        w = tw.nn.Parameter([1.0])
        optimizer = made([w])
        w.sum().backward()
        with pytest.raises(Exception) as e:
            optimizer.step()
        return e.value

    for update, text in [
        (lambda self, p, g, s, lr, t, d: p, "expected a tuple of the new parameter and a dict of its state, not Tensor"),
        (lambda self, p, g, s, lr, t, d: (p, {}), "the new state has no 'a'"),
        (lambda self, p, g, s, lr, t, d: ("a", s), "expected a tuple of the new parameter"),
        (lambda self, p, g, s, lr, t, d: (p @ p.reshape(1, 1) @ tw.ones(3), s), "matmul"),
    ]:
        e = error(update)
        assert isinstance(e, tw.Error) and text in str(e).replace('"', "'"), str(e)
    assert isinstance(error(lambda self, p, g, s, lr, t, d: 1 / 0), ZeroDivisionError)
    assert "Made has no update" in str(error(None))
    with pytest.raises(tw.Error, match="expected one of talweg.optim such as Adam, or a custom Rule, not LBFGS"):
        tw.train.Trainer(tw.nn.Linear(1, 1), tw.optim.LBFGS([tw.nn.Parameter([1.0])]), [])
    with pytest.raises(tw.Error, match="Made has no setting 'beta'"):
        type("Made", (tw.optim.Rule,), {})([tw.nn.Parameter([1.0])], beta=3)


SCRIPT = RULE + """
import sys
from talweg import nn

tw.manual_seed(0)
model = nn.Linear(3, 1)
make = Momentum if sys.argv[1] == "own" else tw.optim.SGD
x = tw.randn(8, 3)
trainer = tw.train.Trainer(model, make(model.parameters(), lr=0.1, momentum=0.5), [(x,)], epochs=5, progress=False)
trainer.fit(lambda x: (model(x) - 1).square().mean())
print("weights", [v for p in model.parameters() for v in p.numpy().ravel().tolist()])
"""


@pytest.mark.skipif(TALWEG is None, reason="the talweg command has not been built")
@pytest.mark.parametrize("servers", ["0", "1"])
def test_workers_share_its_gradients(tmp_path, servers):
    script = tmp_path / "rule.py"
    script.write_text(SCRIPT)
    ends = []
    for which in ["own", "built-in"]:
        words = [str(TALWEG), "launch", "--workers", "2", "--servers", servers, sys.executable, str(script), which]
        done = subprocess.run(words, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stdout + done.stderr
        found = [eval(w) for w in re.findall(r"weights (\[.*\])", done.stdout)]
        assert len(found) == 2 and found[0] == found[1]
        ends.append(found[0])
    assert ends[0] == pytest.approx(ends[1], abs=1e-6)
