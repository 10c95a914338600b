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


def said(*words):
    # Scripts are run by the first Python of the path.
    path = os.pathsep.join([str(pathlib.Path(sys.executable).parent), os.environ["PATH"]])
    env = {k: v for k, v in os.environ.items() if k != "TALWEG_QUICK"} | {"PATH": path}
    done = subprocess.run([*map(str, words), EXAMPLE], capture_output=True, text=True, timeout=120, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def losses(text):
    return [float(w) for w in re.findall(r"loss ([0-9.]+)", text)]


@pytest.mark.parametrize("mesh, ranks, plan", [("data=2,tensor=2", 4, "megatron"), ("data=2", 2, "fsdp"), ("data=3", 3, "data"), ("pipe=2", 2, "data,microbatches=3,schedule=zb-h1")])
def test_ranks_have_the_losses_of_one_process(mesh, ranks, plan):
    alone, text = losses(said(sys.executable)), said(TALWEG, "launch", "--mesh", mesh, "--plan", plan)
    assert len(alone) == 20 and alone[-1] < alone[0] / 4
    for rank in range(ranks):
        mine = losses("\n".join(line for line in text.splitlines() if line.startswith(f"[worker {rank}]")))
        assert mine == pytest.approx(alone, rel=1e-5), f"rank {rank}"


def test_explain_names_the_line_of_each_exchange():
    text = said(TALWEG, "explain", "--mesh", "data=2,tensor=2", "--plan", "megatron")
    lines = [line for line in text.splitlines() if line.startswith("all_reduce")]
    assert len(lines) == 7 and all(pathlib.Path(EXAMPLE).name + ":" in line for line in lines), text
    assert sum(" tensor " in line for line in lines) == 1, text
