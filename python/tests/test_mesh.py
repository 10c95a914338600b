"""The example `mesh`, which knows nothing of other processes, cut over meshes by `talweg launch` and `talweg explain`."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

from test_launch import ROOT, TALWEG

EXAMPLE = str(ROOT / "python/examples/mesh.py")

pytestmark = pytest.mark.skipif(TALWEG is None, reason="the talweg command has not been built")


def said(*words, model="mlp"):
    # Scripts are run by the first Python of the path.
    path = os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]])
    env = {k: v for k, v in os.environ.items() if k != "TALWEG_QUICK"} | {"PATH": path}
    done = subprocess.run([*map(str, words), EXAMPLE, model], capture_output=True, text=True, timeout=120, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def losses(text):
    return [float(w) for w in re.findall(r"loss ([0-9.]+)", text)]


STRATEGIES = [
    ("mlp", "data=2,tensor=2", 4, "megatron"),
    ("mlp", "data=3", 3, "data"),
    ("mlp", "pipe=2", 2, "data,microbatches=3,schedule=zb-h1"),
    ("cnn", "data=2", 2, "fsdp"),
    ("gpt", "data=2,context=2", 4, "data,zero=1"),
    ("gpt", "tensor=2", 2, "megatron,sequence=true"),
    ("moe", "expert=2", 2, "data"),
]


@pytest.mark.parametrize("model, mesh, ranks, plan", STRATEGIES)
def test_ranks_have_the_losses_of_one_process(model, mesh, ranks, plan):
    alone = losses(said(sys.executable, model=model))
    text = said(TALWEG, "launch", "--mesh", mesh, "--plan", plan, model=model)
    assert len(alone) == 20 and alone[-1] < alone[0]
    for rank in range(ranks):
        mine = losses("\n".join(line for line in text.splitlines() if line.startswith(f"[worker {rank}]")))
        assert mine == pytest.approx(alone, rel=1e-5), f"rank {rank}"


def test_explain_names_the_line_of_each_exchange():
    text = said(TALWEG, "explain", "--mesh", "data=2,tensor=2", "--plan", "megatron")
    lines = [line for line in text.splitlines() if line.startswith("all_reduce")]
    assert len(lines) == 7 and all(pathlib.Path(EXAMPLE).name + ":" in line for line in lines), text
    assert sum(" tensor " in line for line in lines) == 1, text


def test_a_trainer_saves_and_resumes_on_all_ranks(tmp_path):
    job = str(ROOT / "scripts/kill_ranks_job.py")
    path = os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]])

    def weights(folder, steps):
        env = os.environ | {"PATH": path, "STEPS": str(steps), "CHECKPOINTS": str(tmp_path / folder)}
        words = [str(TALWEG), "launch", "--mesh", "data=2", "--plan", "fsdp", job]
        done = subprocess.run(words, capture_output=True, text=True, timeout=120, env=env)
        assert done.returncode == 0, done.stdout + done.stderr
        found = re.findall(rf"step {steps}, weights (\w+)", done.stdout)
        assert len(found) == 2 and found[0] == found[1], done.stdout
        return found[0]

    weights("resumed", 7)
    assert weights("resumed", 12) == weights("whole", 12)
