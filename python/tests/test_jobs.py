"""What becomes of checkpoints when workers are lost, of folders that others open, and of jobs whose workers disagree."""

import fcntl
import os
import re
import subprocess
import sys

import pytest
import talweg as tw
from test_launch import TALWEG

launched = pytest.mark.skipif(TALWEG is None, reason="the talweg command has not been built")

SCRIPT = """
import os, resource, signal, sys, time
import talweg as tw

what, folder, mark = sys.argv[1:]
rank = tw.distributed.rank()
if what == "full" and os.path.exists(mark):
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
tw.manual_seed(0)
x = tw.randn(64, 4)
y = x.sum(1, keepdims=True)
model = tw.nn.Linear(4, 1)
optimizer = tw.optim.SGD(model.parameters(), lr=0.02 if what == "rate" and rank == 1 else 0.01)
size = 16 if what == "batch" and rank == 1 else 32

def loss(x, y):
    if what == "raises" and rank == 0 and trainer.step >= 10:
        raise RuntimeError("worker 0 cannot go on")
    bad = float("nan") if what == "nan" and trainer.step == 12 else 1.0
    return (model(x) - y).square().mean() * bad

class Tell(tw.train.Callback):
    def on_step(self, trainer, loss):
        if what == "last" and rank == 1 and trainer.step == 30 and not os.path.exists(mark):
            open(mark, "w").close()
            time.sleep(1000)
        if what == "full" and trainer.step >= 25:
            open(mark, "w").close()
            resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))

folder = folder + str(rank) if what == "local" else folder
trainer = tw.train.Trainer(
    model, optimizer, tw.utils.data.DataLoader((x, y), batch_size=size, shuffle=True), steps=30, checkpoints=folder,
    save_every=5, callbacks=[Tell()], progress=False,
)
trainer.resume()
save = trainer._save_last
def save_last():
    if what == "killed" and rank == 0 and not os.path.exists(mark):
        open(mark, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    save()
trainer._save_last = save_last
trainer.fit(loss)
print("ends at", trainer.step, [p.numpy().tolist() for p in model.parameters()], flush=True)
if what == "after" and rank == 1:
    time.sleep(1000)
if what == "talks" and rank == 1:
    for i in range(40):
        print("evaluates", i, flush=True)
        time.sleep(0.2)
"""


def run(folder, what, *args, alone=False):
    script = folder / "job.py"
    script.write_text(SCRIPT)
    words = [] if alone else [str(TALWEG), "launch", *args]
    words += [sys.executable, str(script), what, str(folder / "run"), str(folder / "mark")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=240)
    return done.returncode, done.stdout + done.stderr


@launched
@pytest.mark.parametrize("servers", ["0", "1"])
def test_another_worker_saves_when_the_first_is_dropped(tmp_path, servers):
    code, said = run(tmp_path, "raises", "--workers", "1:2", "--servers", servers, "--max-restarts", "1")
    assert "worker 0 cannot go on" in said and "ends at 30" in said, said
    assert (tmp_path / "run" / "step-0000000030.safetensors").exists(), said
    tw.train.load_checkpoint(tmp_path / "run" / "step-0000000030.safetensors")


@launched
@pytest.mark.parametrize("servers", ["0", "1"])
def test_the_last_checkpoint_is_written_although_its_writer_is_killed(tmp_path, servers):
    code, said = run(tmp_path, "killed", "--workers", "2", "--servers", servers)
    assert code == 0 and (tmp_path / "mark").exists(), said
    assert (tmp_path / "run" / "step-0000000030.safetensors").exists(), said


@launched
@pytest.mark.parametrize("servers", ["0", "1"])
def test_a_worker_that_hangs_after_its_training_is_named_and_ended(tmp_path, servers):
    code, said = run(tmp_path, "after", "--workers", "2", "--servers", servers, "--hang-timeout", "5")
    assert code == 1 and said.count("ends at 30") == 2, said
    assert "worker 1 is done with its training, but has neither ended nor printed anything for" in said, said
    assert "failed: worker 1 hung after the training was done; 1 of 2 workers done" in said, said
    assert (tmp_path / "run" / "step-0000000030.safetensors").exists(), said


@launched
def test_a_worker_that_prints_after_its_training_is_left_alone(tmp_path):
    code, said = run(tmp_path, "talks", "--workers", "2", "--exit-timeout", "5")
    assert code == 0 and "evaluates 39" in said, said


@launched
@pytest.mark.parametrize("servers", ["0", "1"])
def test_a_worker_that_hangs_in_its_last_callback_is_replaced(tmp_path, servers):
    code, said = run(tmp_path, "last", "--workers", "2", "--servers", servers, "--hang-timeout", "5")
    assert code == 0 and (tmp_path / "mark").exists() and said.count("ends at 30") == 2, said
    assert "worker 1 has not moved for" in said, said


@launched
@pytest.mark.parametrize("servers", ["0", "1"])
def test_a_job_that_cannot_write_its_last_checkpoint_fails(tmp_path, servers):
    code, said = run(tmp_path, "full", "--workers", "2", "--servers", servers, "--max-restarts", "1")
    assert code != 0 and "step-0000000030" in said, said
    names = os.listdir(tmp_path / "run")
    assert not any("30" in n or n.endswith(".partial") for n in names), names


@launched
@pytest.mark.parametrize("servers", ["0", "1"])
def test_a_loss_that_is_not_finite_is_not_passed_over(tmp_path, servers):
    code, said = run(tmp_path, "nan", "--workers", "2", "--servers", servers, "--max-restarts", "6")
    assert code != 0 and "ends at" not in said, said
    # However often a worker is started, it fails at this step and not after it.
    assert set(re.findall(r"the loss is nan at step (\d+)", said)) == {"13"}, said
    assert max(os.listdir(tmp_path / "run")).startswith("step-0000000010"), os.listdir(tmp_path / "run")


@launched
def test_workers_that_begin_at_different_steps_are_told(tmp_path):
    # Worker 0 alone has a checkpoint in its folder, which worker 1 does not see.
    code, said = run(tmp_path, "local", alone=True)
    assert code == 0, said
    for name in sorted(os.listdir(tmp_path / "run0")):
        if "25" not in name:
            os.remove(tmp_path / "run0" / name)
    code, said = run(tmp_path, "local", "--workers", "2", "--max-restarts", "0")
    assert code != 0 and "step is 25 on worker 0, 0 on worker 1" in said, said


@launched
@pytest.mark.parametrize(
    "what, servers, text",
    [
        ("rate", "0", "learning rate is 0.01 on worker 0, 0.02 on worker 1"),
        ("batch", "0", "batch size is 32 on worker 0, 16 on worker 1"),
        ("batch", "1", "batch size is"),
    ],
)
def test_workers_with_different_settings_are_told(tmp_path, what, servers, text):
    code, said = run(tmp_path, what, "--workers", "2:2", "--servers", servers, "--max-restarts", "0")
    assert code != 0 and "workers begin differently: " in said and text in said, said


def test_whoever_opens_a_folder_leaves_what_others_write_there(tmp_path):
    written, left = tmp_path / ".step-0000000007.safetensors.1-0.partial", tmp_path / ".a.1-1.partial"
    left.write_bytes(b"of a process that was killed")
    with open(written, "wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.write(b"half")
        model = tw.nn.Linear(2, 1)
        optimizer = tw.optim.SGD(model.parameters())
        loader = [tw.ones(4, 2)]
        trainer = tw.train.Trainer(model, optimizer, loader, checkpoints=tmp_path, progress=False)
        assert trainer.resume() is None and written.exists() and left.exists(), "nothing changes by opening"
        trainer.fit(lambda x: model(x).square().mean())
        assert written.exists() and not left.exists()
        # An evaluation that only reads.
        other = tw.train.Trainer(model, optimizer, loader, checkpoints=tmp_path, progress=False)
        assert other.resume() == 1 and written.exists()
