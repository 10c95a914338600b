"""Settings that change from step to step: servers of a parameter store use those of the step, to the bit."""

import re
import subprocess
import sys

import pytest
import talweg as tw
from test_launch import TALWEG

launched = pytest.mark.skipif(TALWEG is None, reason="the talweg command has not been built")

SCRIPT = """
import os, signal, sys
import talweg as tw

what, how, folder = sys.argv[1:4]
tw.manual_seed(0)
x = tw.randn(64, 6)
y = x @ tw.randn(6, 1)
model = tw.nn.Sequential(tw.nn.Linear(6, 9), tw.nn.Tanh(), tw.nn.Linear(9, 1))
first, second = model[0].parameters(), model[2].parameters()
make = {
    "sgd": lambda: tw.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, nesterov=True),
    "adam": lambda: tw.optim.AdamW(model.parameters(), lr=0.01),
    "changes-sgd": lambda: tw.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, weight_decay=0.1),
    "changes-adam": lambda: tw.optim.Adam(model.parameters(), lr=0.01, weight_decay=0.1),
    "changes-rmsprop": lambda: tw.optim.RMSprop(model.parameters(), lr=0.01, momentum=0.5, weight_decay=0.1),
    "changes-nadam": lambda: tw.optim.NAdam(model.parameters(), lr=0.01, weight_decay=0.1),
    "groups": lambda: tw.optim.SGD(
        [{"params": list(first)}, {"params": list(second), "momentum": 0.5, "weight_decay": 0.1}], lr=0.01, momentum=0.9
    ),
    "adds": lambda: tw.optim.SGD(model.parameters(), lr=0.01),
}
optimizer = make[what]()
schedule = None
if what in ("sgd", "adam"):
    schedule = tw.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.05, total_steps=24)

class Changes(tw.train.Callback):
    def on_step(self, trainer, loss):
        at = trainer.step
        if how == "killed" and at == 13 and tw.distributed.rank() == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
            os.kill(os.getpid(), signal.SIGKILL)
        for group in optimizer.param_groups:
            if what == "adds" and at == 5:
                group["momentum"] = 0.9
            if not what.startswith("changes"):
                continue
            group["weight_decay"] = 0.1 / (1 + at)
            if "momentum" in group:
                group["momentum"] = 0.9 - 0.02 * at
            if "betas" in group:
                group["betas"] = (0.9 - 0.02 * at, 0.999 - 0.001 * at)
            if "eps" in group:
                group["eps"] = 1e-8 * (1 + at)

loader = tw.utils.data.DataLoader((x, y), batch_size=16, shuffle=True)
trainer = tw.train.Trainer(
    model, optimizer, loader, steps=24, schedule=schedule, callbacks=[Changes()], jit=how == "jit", progress=False
)
trainer.fit(lambda x, y: (model(x) - y).square().mean())
print("ends with", [v.hex() for p in model.parameters() for v in p.numpy().ravel().tolist()], optimizer.param_groups[0].get("momentum"))
"""


def run(folder, servers, what, how="plain", code=0):
    script = folder / "tuned.py"
    script.write_text(SCRIPT)
    words = [str(TALWEG), "launch", "--workers", "2", "--servers", servers, sys.executable, str(script), what, how, str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=240)
    said = done.stdout + done.stderr
    assert done.returncode == code, said
    if code:
        return said
    ends = set(re.findall(r"ends with (.*)", said))
    assert len(ends) == 1, said
    return ends.pop()


@launched
@pytest.mark.parametrize("how", ["plain", "jit"])
@pytest.mark.parametrize("what", ["sgd", "adam", "changes-sgd", "changes-adam", "groups"])
def test_servers_use_the_settings_of_the_step(tmp_path, what, how):
    assert run(tmp_path, "2", what, how) == run(tmp_path, "0", what, how)


@launched
@pytest.mark.parametrize("what", ["changes-rmsprop", "changes-nadam"])
def test_settings_of_other_rules_travel_too(tmp_path, what):
    assert run(tmp_path, "1", what) == run(tmp_path, "0", what)


@launched
@pytest.mark.parametrize("what", ["sgd", "changes-adam"])
def test_a_worker_that_takes_anothers_place_goes_on_with_the_settings(tmp_path, what):
    assert run(tmp_path, "2", what, "killed") == run(tmp_path, "2", what)


@launched
def test_servers_take_other_numbers_but_no_other_rule(tmp_path):
    assert "servers keep the state with which it was made" in run(tmp_path, "1", "adds", code=1)


CLIPPED = """
import sys
import talweg as tw

tw.manual_seed(0)
w = tw.nn.Parameter(tw.ones(4))
optimizer = tw.optim.SGD([w], lr=0.1)
rank, what = tw.distributed.rank(), sys.argv[1]
scaler = tw.GradScaler(init_scale=8.0)
for step in range(6):
    loss = (w * (rank + 1)).square().sum()
    if what == "scaler":
        scaler.scale(loss * (float("inf") if step == 3 and rank == 1 else 1.0)).backward()
        scaler.step(optimizer)
        continue
    loss.backward()
    if what == "value":
        tw.nn.utils.clip_grad_value_([w], 0.5)
    else:
        tw.nn.utils.clip_grad_norm_([w], 0.5, norm_type=float(what))
    optimizer.step()
if what == "lbfgs":
    tw.optim.LBFGS([w])
print("ends with", w.tolist(), scaler.get_scale())
"""


def clipped(folder, what, *args, code=0):
    script = folder / "clipped.py"
    script.write_text(CLIPPED)
    words = [str(TALWEG), "launch", "--workers", "2", "--max-restarts", "0", *args, sys.executable, str(script), what]
    done = subprocess.run(words, capture_output=True, text=True, timeout=240)
    said = done.stdout + done.stderr
    assert done.returncode == code, said
    return said if code else [eval(e) for e in re.findall(r"ends with (\[.*\]) ", said)]


def expected(clip, steps=6):
    """The means of the two workers' gradients are those of 2.5 times the square."""
    w = tw.ones(4)
    for _ in range(steps):
        w = w - 0.1 * clip(5.0 * w)
    return w.tolist()


@launched
@pytest.mark.parametrize("norm", ["1", "2", "inf"])
def test_it_is_the_mean_gradient_that_is_clipped(tmp_path, norm):
    def clip(g):
        return g * min(1.0, 0.5 / (g.vector_norm(float(norm)).item() + 1e-6))

    for end in clipped(tmp_path, norm):
        assert end == pytest.approx(expected(clip), abs=1e-6)


@launched
@pytest.mark.parametrize("what", ["1", "2", "value"])
def test_servers_that_average_gradients_do_not_clip(tmp_path, what):
    said = clipped(tmp_path, what, "--servers", "1", code=1)
    assert "under bsp the gradients of a step are averaged on the servers" in said, said
    assert len(clipped(tmp_path, what, "--servers", "1", "--consistency", "ssp:1")) == 2


@launched
def test_all_workers_leave_out_a_step_that_is_not_finite(tmp_path):
    ends = clipped(tmp_path, "scaler")
    assert len(ends) == 2 and ends[0] == ends[1] == pytest.approx(expected(lambda g: g, 5)), ends
    said = clipped(tmp_path, "scaler", "--servers", "1", code=1)
    assert "servers take every step that they are sent, and cannot leave one out" in said, said


def test_a_setting_counts_from_the_next_step_on_also_under_jit():
    def trained(jit):
        w = tw.nn.Parameter(tw.ones(3))
        optimizer = tw.optim.Adam([w], lr=0.1)

        def step():
            w.square().sum().backward()
            optimizer.step()

        step = tw.jit(step) if jit else step
        for i in range(6):
            optimizer.param_groups[0]["betas"] = (0.9 - 0.1 * i, 0.99)
            optimizer.param_groups[0]["weight_decay"] = 0.1 * i
            step()
        return w.tolist()

    assert trained(True) == trained(False) != [1.0, 1.0, 1.0]
