"""Checkpoints of jobs of several Python processes: who writes them, what is kept beside them, and who goes on from them."""

import os
import re
import shutil
import subprocess
import sys

import pytest
import talweg as tw
from test_launch import ROOT, TALWEG

pytestmark = pytest.mark.skipif(TALWEG is None, reason="the talweg command has not been built")


def launch(args, steps, folder=None, workers=2, **env):
    """Trains `digits.py`; the fingerprint of the weights on which the workers agree."""
    command = [str(TALWEG), "launch", "--workers", str(workers), *args, sys.executable, str(ROOT / "python/examples/digits.py")]
    env = {**os.environ, "STEPS": str(steps), "TALWEG_THREADS": "1", **env}
    if folder is not None:
        env["CHECKPOINTS"] = str(folder)
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, env=env)
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.findall(r"weights (\w+)", done.stdout)
    assert len(found) == workers and len(set(found)) == 1, done.stdout + done.stderr
    return found[0]


def test_servers_write_their_parts_and_jobs_of_other_sizes_go_on(tmp_path):
    expected = launch([], 30)
    saved = tmp_path / "run"
    launch(["--servers", "2"], 25, saved, TALWEG_PARTS="1")
    parts = list(saved.glob("step-0000000020.part-*.safetensors"))
    assert len(parts) > 2, sorted(os.listdir(saved))
    # A reader gets what one process would have written.
    read = tw.train.load_checkpoint(saved / "step-0000000020.safetensors")
    assert {n: v.shape for n, v in read.items()} == {"1.weight": (32, 784), "1.bias": (32,), "3.weight": (10, 32), "3.bias": (10,)}
    assert "state.0.exp_avg" in tw.train.load_checkpoint(saved / "step-0000000020.safetensors", "optimizer")
    with pytest.raises(tw.Error, match="has no 'loader'; it has"):
        tw.train.load_checkpoint(saved / "step-0000000020.safetensors", "loader")
    # The last one is one file; without it the run goes back to what the servers wrote.
    (saved / "step-0000000025.safetensors").unlink()
    shutil.copytree(saved, tmp_path / "other")
    assert launch(["--servers", "3"], 30, saved, TALWEG_PARTS="1") == expected
    # Nor are servers needed to go on, nor as many workers, whose sums are rounded otherwise.
    assert launch([], 25, tmp_path / "other", workers=4)
    shutil.copytree(tmp_path / "other", tmp_path / "alone")
    (tmp_path / "other" / "step-0000000025.safetensors").unlink()
    assert launch([], 30, tmp_path / "other") == expected
    assert launch([], 30, tmp_path / "alone", workers=1)


@pytest.mark.parametrize("servers", ["0", "2"])
def test_what_packing_leaves_out_is_in_the_checkpoints(tmp_path, servers):
    how = ["--servers", servers, "--wire", "1bit"]
    saved, without = tmp_path / "run", tmp_path / "without"
    launch(how, 20, saved)
    kept = sorted(p.name for p in saved.glob("*.owed-*") if p.suffix != ".xxh3")
    assert kept == ["step-0000000020.owed-0", "step-0000000020.owed-1"]
    shutil.copytree(saved, without, ignore=shutil.ignore_patterns("*.owed-*"))
    whole = launch(how, 30)
    assert launch(how, 30, saved) == whole
    assert launch(how, 30, without) != whole
