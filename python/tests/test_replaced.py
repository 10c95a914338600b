"""Workers that are killed under the parameter store: their replacements go on with their schedule, their early
stopping, their best figure and their buffers, to the bit."""

import json
import re
import subprocess
import sys

import pytest
from test_launch import TALWEG

pytestmark = pytest.mark.skipif(TALWEG is None, reason="the talweg command has not been built")

SCRIPT = """
import os, signal, sys
import talweg as tw
from talweg.optim.lr_scheduler import CosineAnnealingLR, OneCycleLR, ReduceLROnPlateau, StepLR

kind, who, when, at, mark, folder = sys.argv[1:]
rank = tw.distributed.rank()
tw.manual_seed(0)
x = tw.randn(96, 6)
y = x @ tw.randn(6, 1) + 0.1 * tw.randn(96, 1)
model = tw.nn.Sequential(tw.nn.Linear(6, 8), tw.nn.BatchNorm1d(8), tw.nn.ReLU(), tw.nn.Dropout(0.2), tw.nn.Linear(8, 1))
optimizer = tw.optim.Adam(model.parameters(), lr=0.02)
schedule = {
    "cycle": lambda: OneCycleLR(optimizer, 0.05, 60, cycle_momentum=False),
    "step": lambda: StepLR(optimizer, 7, 0.7),
    "cosine": lambda: CosineAnnealingLR(optimizer, 60),
    "plateau": lambda: ReduceLROnPlateau(optimizer, factor=0.3, patience=0),
}[kind]()

def fall(place):
    if (place, str(rank), str(trainer.step)) == (when, who, at) and not os.path.exists(mark):
        open(mark, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)

def loss(x, y):
    fall("loss")
    return (model(x) - y).square().mean()

def evaluate():
    fall("evaluate")
    # The best is at step 25; then it gets worse, until patience ends.
    return {"loss": (model(x) - y).square().mean(), "distance": abs(trainer.step - 25) + 0.5}

class Tell(tw.train.Callback):
    def on_step(self, trainer, loss):
        print(f"rate {rank} {trainer.step} {optimizer.lr!r}", flush=True)
        fall("step")

trainer = tw.train.Trainer(
    model, optimizer, tw.utils.data.DataLoader((x, y), batch_size=16, shuffle=True), steps=60, evaluate=evaluate,
    evaluate_every=5, watch="loss" if kind == "plateau" else "distance", patience=40 if kind == "plateau" else 3,
    schedule=schedule, checkpoints=folder, save_every=10, keep_best=1, callbacks=[Tell()], progress=False,
)
trainer.resume()
history = trainer.fit(loss)
state = {name: value.numpy().tolist() for name, value in model.state_dict().items()}
print(f"ends {rank}", [history.stop, trainer.step, history.best, state], flush=True)
"""


def run(tmp_path, kind, who, when, at, servers="2"):
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    mark, folder = tmp_path / f"{kind}-{who}-{when}-{at}", tmp_path / f"run-{kind}-{who}-{when}-{at}"
    words = [str(TALWEG), "launch", "--workers", "2", "--servers", servers, sys.executable, str(script)]
    words += [kind, who, when, at, str(mark), str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (who == "none") or mark.exists(), "no worker was killed"
    rates = {}
    for rank, step, rate in re.findall(r"rate (\d) (\d+) (\S+)", done.stdout):
        # A step that is done again has the same rate.
        assert rates.setdefault((rank, int(step)), rate) == rate, (rank, step, rate)
    ends = dict(re.findall(r"ends (\d) (.*)", done.stdout))
    # Earlier ones may have been on their way to disk when their writer was killed.
    return rates, ends, content(max(folder.glob("*.safetensors")))


def content(path):
    """What a safetensors file holds, in whatever order its header has it."""
    data = path.read_bytes()
    start = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:start])
    notes = header.pop("__metadata__")
    spans = {name: [start + at for at in entry["data_offsets"]] for name, entry in header.items()}
    return notes, {name: data[a:b] for name, (a, b) in spans.items()}


@pytest.mark.parametrize("kind", ["cycle", "step", "cosine", "plateau"])
def test_a_replaced_worker_goes_on_as_if_nothing_had_happened(tmp_path, kind):
    calm = run(tmp_path, kind, "none", "", "")
    assert set(calm[1]) == {"0", "1"}
    if kind != "plateau":
        assert "'early', 40, (0.5, 25)" in calm[1]["0"], calm[1]["0"]
    # In the middle of a step, after it, and while it is evaluated, where best and schedule change.
    for who, when, at in [("0", "loss", "13"), ("0", "evaluate", "30"), ("1", "step", "25"), ("0", "step", "1")]:
        rates, ends, saved = run(tmp_path, kind, who, when, at)
        assert rates == calm[0], (who, when, at)
        assert ends == calm[1], (who, when, at)
        assert saved == calm[2], (who, when, at)


def test_a_killed_worker_0_leaves_no_trace_with_one_server_or_three(tmp_path):
    calm = run(tmp_path, "cycle", "none", "", "")
    for servers, at in [("1", "17"), ("3", "39")]:
        assert run(tmp_path, "cycle", "0", "step", at, servers)[:2] == calm[:2], servers


LOOP = """
import json, os, signal, sys
import talweg as tw
from talweg import distributed as dist

who, mark = sys.argv[1:]
rank = dist.rank()
tw.manual_seed(0)
x = tw.randn(30, 8, 3)
w = tw.nn.Parameter(tw.zeros(3))
optimizer = tw.optim.SGD([w], lr=0.1)
seen, step = 0.0, dist.step()
while step < 30:
    given = dist.meet(lambda: json.dumps([step, seen, optimizer.lr]).encode())
    if given is not None:
        step, seen, optimizer.lr = json.loads(given)
    mine = dist.shard(x[step])
    ((mine * w).sum(1) - mine.sum(1)).square().mean().backward()
    optimizer.step()
    seen += w.sum().item()
    optimizer.lr *= 0.97
    if who == str(rank) and step == 17 and not os.path.exists(mark):
        open(mark, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    step += 1
print(f"ends {rank}", [seen, optimizer.lr, w.tolist()], flush=True)
"""


@pytest.mark.parametrize("who", ["0", "1"])
def test_a_loop_of_ones_own_goes_on_from_what_it_gave(tmp_path, who):
    script = tmp_path / "loop.py"
    script.write_text(LOOP)
    ends = []
    for victim in ["nobody", who]:
        words = [str(TALWEG), "launch", "--workers", "2", "--servers", "2", sys.executable, str(script)]
        done = subprocess.run([*words, victim, str(tmp_path / "mark")], capture_output=True, text=True, timeout=240)
        assert done.returncode == 0, done.stdout + done.stderr
        ends.append(dict(re.findall(r"ends (\d) (.*)", done.stdout)))
    assert (tmp_path / "mark").exists() and len(ends[0]) == 2 and ends[0] == ends[1], ends
