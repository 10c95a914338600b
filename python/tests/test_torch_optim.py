"""Optimizers and schedules beside PyTorch's: the same numbers, the same state."""

import copy
import math
import pickle
import warnings

import numpy as np
import pytest

import talweg as tw
from talweg import nn

torch = pytest.importorskip("torch", reason="PyTorch is the oracle of these tests")

OPTIMIZERS = """
SGD(P, lr=0.1)
SGD(P, lr=0.1, momentum=0.9, dampening=0.3, weight_decay=0.1)
SGD(P, 0.1, 0.9, 0, 0.01, True)
SGD(P, lr=0.1, momentum=0.9, maximize=True)
Adagrad(P, lr=0.1, lr_decay=0.1, weight_decay=0.1, initial_accumulator_value=0.1)
Adam(P, lr=0.1, betas=(0.8, 0.9), weight_decay=0.1)
Adam(P, 0.1, (0.9, 0.99), 1e-6, 0.1, True)
Adam(P, lr=0.1, amsgrad=True, maximize=True)
Adam(P, lr=0.1, weight_decay=0.1, decoupled_weight_decay=True)
AdamW(P, lr=0.1, foreach=False)
AdamW(P, lr=0.1, amsgrad=True, weight_decay=0.2)
RMSprop(P, lr=0.1, momentum=0.5, centered=True, weight_decay=0.1)
Adadelta(P, lr=1.0, weight_decay=0.1)
NAdam(P, lr=0.1, weight_decay=0.1)
NAdam(P, lr=0.1, weight_decay=0.1, decoupled_weight_decay=True)
Adafactor(P, lr=0.1, weight_decay=0.1, d=1.5, eps=(None, 1e-2))
Adamax(P, lr=0.1, weight_decay=0.1)
RAdam(P, lr=0.1, weight_decay=0.1)
RAdam(P, lr=0.1, weight_decay=0.1, decoupled_weight_decay=True)
ASGD(P, lr=0.1, lambd=0.1, t0=3, weight_decay=0.1)
Rprop(P, lr=0.1)
""".strip().splitlines()


def arrays():
    rng = np.random.default_rng(0)
    return [rng.standard_normal(shape).astype("f4") for shape in [(3, 4), (4,)]]


def params(library):
    if library is torch:
        return [torch.nn.Parameter(torch.tensor(a)) for a in arrays()]
    return [nn.Parameter(a) for a in arrays()]


def loss(ps):
    w, b = ps
    return ((w - b) ** 2).sum() + (w**3).mean()


def steps(optimizer, ps, count, schedule=None):
    for _ in range(count):
        optimizer.zero_grad()
        loss(ps).backward()
        optimizer.step()
        if schedule is not None:
            schedule.step()


def same(ours, theirs, rtol=1e-4):
    for a, b in zip(ours, theirs):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=rtol, atol=1e-5)


def made(line, library, ps):
    return eval(f"optim.{line}", {"optim": library.optim, "P": ps})


@pytest.mark.parametrize("line", OPTIMIZERS)
def test_optimizers_step_as_pytorchs(line):
    theirs, ours = params(torch), params(tw)
    a, b = made(line, torch, theirs), made(line, tw, ours)
    steps(a, theirs, 7), steps(b, ours, 7)
    same(ours, theirs)
    # PyTorch's state goes on here, and that of here in a copy.
    fresh = [nn.Parameter(p.detach().numpy()) for p in theirs]
    c = made(line, tw, fresh)
    c.load_state_dict(a.state_dict())
    steps(a, theirs, 3), steps(c, fresh, 3)
    same(fresh, theirs)
    again = made(line, tw, [nn.Parameter(p.detach()) for p in fresh])
    again.load_state_dict(pickle.loads(pickle.dumps(c.state_dict())))
    steps(c, fresh, 2), steps(again, again.param_groups[0]["params"], 2)
    same(again.param_groups[0]["params"], fresh, 1e-6)
    keys = set(a.state_dict()["state"].get(0, {}))
    assert set(b.state_dict()["state"].get(0, {})) >= keys - {"eta", "mu", "step"} or not keys
    assert set(b.state_dict()["param_groups"][0]) == set(a.state_dict()["param_groups"][0])


def test_muon_steps_as_pytorchs():
    theirs, ours = torch.nn.Parameter(torch.tensor(arrays()[0])), nn.Parameter(arrays()[0])
    a, b = torch.optim.Muon([theirs], lr=0.1), tw.optim.Muon([ours], lr=0.1)
    for w, o in ((theirs, a), (ours, b)):
        (w**3).sum().backward()
        o.step()
    # In bfloat16, whose rounding differs.
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), atol=1.5e-2)
    with pytest.raises(tw.Error, match="matrices"):
        tw.optim.Muon([nn.Parameter(tw.zeros(2))])


def test_every_optimizer_and_schedule_of_pytorch_is_there():
    names = [n for n in dir(torch.optim) if n[0].isupper()]
    assert not [n for n in names if not hasattr(tw.optim, n)]
    schedules = [n for n in torch.optim.lr_scheduler.__all__]
    assert not [n for n in schedules if not hasattr(tw.optim.lr_scheduler, n)]
    assert not [n for n in torch.optim.swa_utils.__all__ if not hasattr(tw.optim.swa_utils, n)]


SCHEDULES = """
StepLR(O, 3, gamma=0.5)
MultiStepLR(O, [2, 5, 5], 0.5)
ConstantLR(O, factor=0.5, total_iters=4)
LinearLR(O, start_factor=0.2, total_iters=6)
ExponentialLR(O, 0.8)
PolynomialLR(O, total_iters=6, power=2.0)
CosineAnnealingLR(O, 5, eta_min=0.01)
CosineAnnealingWarmRestarts(O, 3, T_mult=2, eta_min=0.01)
CyclicLR(O, 0.01, 0.2, step_size_up=3, mode="triangular2", cycle_momentum=False)
CyclicLR(O, 0.01, 0.2, step_size_up=3, step_size_down=2, mode="exp_range", gamma=0.9)
OneCycleLR(O, 0.3, total_steps=14)
OneCycleLR(O, [0.3, 0.1], epochs=7, steps_per_epoch=2, three_phase=True, anneal_strategy="linear", cycle_momentum=False)
LambdaLR(O, lambda s: 0.9**s)
LambdaLR(O, [lambda s: 0.9**s, lambda s: 1.0])
MultiplicativeLR(O, lambda s: 0.95)
SequentialLR(O, [L.LinearLR(O, 0.1, total_iters=3), L.CosineAnnealingLR(O, 5)], milestones=[3])
SequentialLR(O, [L.ConstantLR(O, 0.1, 2), L.ExponentialLR(O, 0.9), L.StepLR(O, 2)], milestones=[2, 6])
ChainedScheduler([L.ConstantLR(O, 0.1, 2), L.ExponentialLR(O, 0.9)])
""".strip().splitlines()


@pytest.mark.parametrize("line", SCHEDULES)
def test_schedules_are_pytorchs(line):
    runs = {}
    for library in (torch, tw):
        w, b = params(library)
        o = library.optim.SGD([{"params": [w]}, {"params": [b], "lr": 0.05}], lr=0.1, momentum=0.9)
        schedule = eval(f"L.{line}", {"L": library.optim.lr_scheduler, "O": o})
        rates = []
        for _ in range(12):
            rates.append([*schedule.get_last_lr(), *(g["lr"] for g in o.param_groups), *(g["momentum"] for g in o.param_groups)])
            steps(o, [w, b], 1, schedule)
        runs[library] = rates, [w, b], schedule, o
    np.testing.assert_allclose(runs[tw][0], runs[torch][0], rtol=1e-6, atol=1e-9)
    same(runs[tw][1], runs[torch][1], 1e-3)
    schedule, o = runs[tw][2:]
    state = copy.deepcopy(schedule.state_dict())
    before = [g["lr"] for g in o.param_groups]
    steps(o, runs[tw][1], 1, schedule)
    schedule.load_state_dict(state)
    assert [g["lr"] for g in o.param_groups] == before


@pytest.mark.parametrize("settings", [dict(), dict(mode="max"), dict(threshold_mode="abs", threshold=0.3), dict(cooldown=2, min_lr=0.02)])
def test_plateaus_are_pytorchs(settings):
    figures, runs = [3.0, 2.9, 2.8, 2.8, 2.8, 2.7, 2.7, 2.9, 3.0, 3.1, 3.1, 3.1, 2.0, math.nan, 2.0, 2.0], []
    for library in (torch, tw):
        o = library.optim.SGD(params(library), lr=0.1)
        s = library.optim.lr_scheduler.ReduceLROnPlateau(o, factor=0.5, patience=1, **settings)
        rates = []
        for x in figures:
            s.step(x)
            rates.append(o.param_groups[0]["lr"])
        runs.append(rates)
    np.testing.assert_allclose(runs[1], runs[0])


@pytest.mark.parametrize("kind", ["ema", "swa"])
def test_averaged_models_are_pytorchs(kind):
    models = {}
    for library in (torch, tw):
        torch.manual_seed(0)
        source = torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))
        model = library.nn.Sequential(library.nn.Linear(3, 2), library.nn.BatchNorm1d(2))
        model.load_state_dict(source.state_dict())
        swa = library.optim.swa_utils
        average = swa.AveragedModel(model, multi_avg_fn=swa.get_ema_multi_avg_fn(0.9) if kind == "ema" else None)
        o = library.optim.SGD(model.parameters(), lr=0.1)
        x = library.tensor(np.arange(12, dtype="f4").reshape(4, 3) / 12)
        for _ in range(4):
            o.zero_grad()
            ((model(x) - 1) ** 2).mean().backward()
            o.step()
            average.update_parameters(model)
        swa.update_bn([x], average)
        models[library] = average
    ours, theirs = models[tw].state_dict(), models[torch].state_dict()
    assert list(ours) == list(theirs)
    same(ours.values(), theirs.values())


def test_groups_have_settings_of_their_own():
    runs = []
    for library in (torch, tw):
        w, b = params(library)
        o = library.optim.Adam([{"params": [w], "betas": (0.5, 0.9)}, {"params": [b], "lr": 0.3, "name": "bias"}], lr=0.1)
        steps(o, [w, b], 3)
        o.param_groups[0].update(lr=0.01)
        o.param_groups[1]["weight_decay"] = 0.5
        steps(o, [w, b], 3)
        o.param_groups[0]["betas"] = (0.9, 0.99)
        steps(o, [w, b], 3)
        runs.append(([w, b], o))
    same(runs[1][0], runs[0][0])
    assert runs[1][1].param_groups[1]["name"] == "bias" and runs[1][1].defaults["lr"] == 0.1


def test_small_steps_of_16_bit_parameters_survive_a_changed_setting():
    w = nn.Parameter(tw.ones(2)).detach()
    model = nn.Linear(2, 1, bias=False).bfloat16()
    nn.init.ones_(model.weight)
    o = tw.optim.SGD(model.parameters(), lr=1e-3)
    for i in range(8):
        if i == 4:
            o.param_groups[0]["weight_decay"] = 1e-9
        o.zero_grad()
        model(w.astype("bfloat16")).sum().backward()
        o.step()
    # One step of 0.001 is lost beside 1 in bfloat16; eight of them are not.
    assert model.weight.astype("float32").tolist() == [[0.9921875, 0.9921875]]


def test_a_changed_learning_rate_counts_in_a_jitted_step():
    w = nn.Parameter([1.0])
    o = tw.optim.SGD([w], lr=0.5)

    @tw.jit
    def step():
        w.sum().backward()
        o.step()

    step()
    o.param_groups[0] |= {"lr": 0.25}
    step()
    assert w.item() == 0.25


def test_parameters_can_be_added():
    w, b = params(tw)
    o = tw.optim.SGD([w], lr=0.1)
    o.add_param_group({"params": b, "lr": 1.0})
    steps(o, [w, b], 1)
    assert [g["lr"] for g in o.param_groups] == [0.1, 1.0]
    for wrong, kind in [({"params": [w]}, ValueError), ({"params": {w}}, TypeError), ([w], TypeError), ({"params": [tw.ones(1)]}, TypeError)]:
        with pytest.raises(kind):
            o.add_param_group(wrong)
    with pytest.raises(TypeError, match="module.parameters"):
        tw.optim.Adam(nn.Linear(1, 1))
    with pytest.raises(ValueError, match="lazy"):
        tw.optim.Adam(nn.LazyLinear(1).parameters())
    named = tw.optim.SGD(nn.Linear(1, 1).named_parameters(), lr=0.1)
    assert named.param_groups[0]["param_names"] == ["weight", "bias"]


def test_gradients_may_be_made_zero():
    ps = params(tw)
    o = tw.optim.SGD(ps)
    loss(ps).backward()
    o.zero_grad(set_to_none=False)
    assert ps[1].grad.tolist() == [0] * 4
    o.zero_grad()
    assert ps[1].grad is None


def test_a_gradient_that_a_step_has_used_up_cannot_be_read():
    (w, b), unused = params(tw), nn.Parameter([1.0])
    o = tw.optim.SGD([w, b, unused], lr=0.1)
    loss([w, b]).backward()
    assert w.grad is not None
    o.step()
    with pytest.raises(tw.GradientError, match="test_torch_optim.py"):
        w.grad
    assert unused.grad is None
    for p in (copy.deepcopy(w), pickle.loads(pickle.dumps(w))):
        assert p.grad is None
    loss([w, b]).backward()
    assert w.grad is not None
    with pytest.warns(UserWarning, match="zero_grad"):  # PyTorch would have added to the gradient
        o.step()
    o.zero_grad()
    assert w.grad is None
    before = w.tolist()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        o.step()  # nothing happens, as in PyTorch
    assert w.tolist() == before
    w.grad = tw.ones(3, 4)
    assert w.grad.sum().item() == 12


def test_parameters_that_are_trained_later_begin_with_their_first_step():
    runs = []
    for library in (torch, tw):
        w, b = params(library)
        o = library.optim.Adam([w, b], lr=0.1)
        for i in range(8):
            b.requires_grad_(i >= 4)
            o.zero_grad()
            loss([w, b]).backward()
            o.step()
        runs.append(([w, b], o.state_dict()))
    same(runs[1][0], runs[0][0])
    assert [int(s["step"]) for s in runs[1][1]["state"].values()] == [8, 4]
    w, b = (nn.Parameter(p.detach().numpy()) for p in runs[0][0])
    o = tw.optim.Adam([w, b], lr=0.1)
    o.load_state_dict(runs[0][1])
    assert [int(s["step"]) for s in o.state_dict()["state"].values()] == [8, 4]


def test_optimizers_are_copied_with_their_model():
    ps = params(tw)
    o = tw.optim.AdamW([{"params": ps[:1]}, {"params": ps[1:], "lr": 0.3}], lr=0.1)
    steps(o, ps, 3)
    for again in (copy.deepcopy((ps, o)), pickle.loads(pickle.dumps((ps, o)))):
        qs, p = again
        assert p.param_groups[0]["params"][0] is qs[0] and [g["lr"] for g in p.param_groups] == [0.1, 0.3]
        mine, other = copy.deepcopy((ps, o)), (qs, p)
        steps(mine[1], mine[0], 2), steps(p, qs, 2)
        same(qs, mine[0], 1e-6)


def test_an_optimizer_written_for_pytorch_runs():
    def make(library):
        class Descent(library.optim.Optimizer):
            def __init__(self, params, lr=0.1, momentum=0.5):
                super().__init__(params, dict(lr=lr, momentum=momentum))

            @library.no_grad()
            def step(self, closure=None):
                for group in self.param_groups:
                    for p in group["params"]:
                        if p.grad is None:
                            continue
                        state = self.state[p]
                        if len(state) == 0:
                            state["buffer"] = library.zeros_like(p)
                        state["buffer"].mul_(group["momentum"]).add_(p.grad)
                        p.sub_(state["buffer"] * group["lr"])

        return Descent

    runs = []
    for library in (torch, tw):
        ps = params(library)
        o = make(library)(ps, lr=0.05)
        s = library.optim.lr_scheduler.StepLR(o, 2)
        steps(o, ps, 5, s)
        state = o.state_dict()
        other = make(library)(ps)
        other.load_state_dict(state)
        steps(other, ps, 2)
        runs.append((ps, state))
    same(runs[1][0], runs[0][0])
    assert list(runs[1][1]["state"][0]) == ["buffer"] and runs[1][1]["param_groups"][0]["params"] == [0, 1]


def test_what_is_refused_says_so():
    ps = params(tw)
    for call, text in [
        (lambda: tw.optim.SparseAdam(ps), "use Adam"),
        (lambda: tw.optim.Adam(ps, differentiable=True), "differentiable"),
        (lambda: tw.optim.Adam(ps, lr=-1.0), "lr must be at least 0"),
        (lambda: tw.optim.Adam(ps, betas=(1.0, 0.9)), "betas"),
        (lambda: tw.optim.SGD(ps, nesterov=True), "nesterov"),
        (lambda: tw.optim.Adam(ps, maximize=True)._native, "maximize"),
        (lambda: tw.optim.lr_scheduler.OneCycleLR(tw.optim.Adagrad(ps), 0.1, total_steps=3), "cycle_momentum"),
        (lambda: tw.optim.SGD(ps).load_state_dict({"state": {}, "param_groups": []}), "groups"),
    ]:
        with pytest.raises(tw.Error, match=text):
            call()


def test_hooks_of_steps():
    ps, seen = params(tw), []
    o = tw.optim.SGD(ps)
    o.register_step_pre_hook(lambda optimizer, args, kwargs: seen.append("before"))
    handle = o.register_step_post_hook(lambda optimizer, args, kwargs: seen.append("after"))
    steps(o, ps, 1)
    handle.remove()
    steps(o, ps, 1)
    assert seen == ["before", "after", "before"]


def test_lbfgs_is_an_optimizer():
    runs = []
    for library in (torch, tw):
        w = library.nn.Parameter(library.tensor([3.0, -2.0]))
        o = library.optim.LBFGS([w], lr=1.0, max_iter=2)
        s = library.optim.lr_scheduler.StepLR(o, 1, gamma=0.5)
        assert isinstance(o, library.optim.Optimizer)
        losses = []

        def closure():
            o.zero_grad()
            value = ((w - library.tensor([1.0, 2.0])) ** 4).sum()
            value.backward()
            return value

        for _ in range(4):
            losses.append(o.step(closure).item())
            s.step()
        losses.append(o.param_groups[0]["lr"])
        runs.append(losses)
    np.testing.assert_allclose(runs[1], runs[0], rtol=1e-4)


def test_hooks_of_states():
    w = nn.Parameter([1.0])
    o, seen = tw.optim.SGD([w], lr=0.5), []
    o.register_state_dict_pre_hook(lambda o: seen.append("before"))
    o.register_state_dict_post_hook(lambda o, state: {**state, "more": 1})
    o.register_load_state_dict_pre_hook(lambda o, state: {**state, "param_groups": [{**state["param_groups"][0], "lr": 0.25}]})
    o.register_load_state_dict_post_hook(lambda o: seen.append("after load"))
    state = o.state_dict()
    assert state["more"] == 1
    o.load_state_dict(state)
    assert o.lr == 0.25 and seen == ["before", "after load"]
