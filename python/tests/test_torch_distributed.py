"""PyTorch's programs for several processes run under ``talweg launch`` when only their imports are changed.

The programs are `distributed/*.py`; what PyTorch's processes print is in `distributed/said.json`, from a run of the same files
with `RANK`, `WORLD_SIZE`, `MASTER_ADDR` and `MASTER_PORT` set.
"""

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

HERE = pathlib.Path(__file__).parent / "distributed"
SAID = json.loads((HERE / "said.json").read_text())
LAUNCH = [sys.executable, "-m", "talweg", "launch", "--workers", "2", "--max-restarts", "0"]


def said(name, folder, words, **env):
    """What each process of a program says, by the rank."""
    text = (HERE / f"{name}.py").read_text()
    script = folder / f"{name}.py"
    script.write_text(re.sub(r"\b(from|import) torch\b", r"\1 talweg", text).replace("import talweg\n", "import talweg as torch\n"))
    done = subprocess.run([*words, sys.executable, str(script)], capture_output=True, text=True, timeout=180, cwd=folder, env={**os.environ, **env})
    assert done.returncode == 0, done.stdout + done.stderr
    return sorted((eval(line) for line in re.findall(r"said (\[.*\])", done.stdout)), key=str)


def test_a_wrapped_model_trains_as_in_pytorch_and_as_in_one_process(tmp_path):
    first, second = said("ddp", tmp_path, LAUNCH)
    (alone,) = said("ddp", tmp_path, [])
    for mine, theirs in zip((first, second, alone), SAID["ddp"]):
        # The parameter without a wrapper took the step of its own process.
        assert mine[0] == theirs[0] and mine[3:5] == theirs[3:5]
        assert [*mine[1], *mine[2], *mine[5]] == pytest.approx([*theirs[1], *theirs[2], *theirs[5]], rel=1e-4, abs=1e-4)


def test_processes_that_no_launcher_started_find_each_other(tmp_path):
    """As under torchrun, whose variables say all."""
    import socket

    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        port = s.getsockname()[1] - 1
    env = {**os.environ, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    code = "import talweg.distributed as dist, talweg as tw; dist.init_process_group('gloo'); x = tw.ones(2) + dist.get_rank(); dist.all_reduce(x); print(x.tolist())"
    words = [sys.executable, "-c", code]
    both = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True, env={**env, "RANK": str(r)}) for r in range(2)]
    assert [p.communicate(timeout=120)[0] for p in both] == ["[3.0, 3.0]\n"] * 2


def test_collectives_write_to_their_arguments_as_in_pytorch(tmp_path):
    for mine, theirs in zip(said("collectives", tmp_path, LAUNCH), SAID["collectives"]):
        assert len(mine) == len(theirs)
        for a, b in zip(mine, theirs):
            assert json.loads(json.dumps(a)) == b
