"""The `talweg` command of the wheel: `python -m talweg`, and the function that the console script calls."""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import tomllib

import pytest

import talweg as tw
from talweg.__main__ import main

COMMAND = [sys.executable, "-m", "talweg"]
ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(*words, **options):
    return subprocess.run([*COMMAND, *words], capture_output=True, text=True, timeout=120, **options)


def test_the_console_script_is_declared():
    scripts = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]
    assert scripts == {"talweg": "talweg.__main__:main"}


def test_version_help_and_mistakes():
    assert run("--version").stdout == f"talweg {tw.__version__}\n"
    listed = run("--help").stdout
    assert all(word in listed for word in ("launch", "explain", "inspect", "bench", "quickstart", "ops"))
    mistake = run("lunch")
    assert mistake.returncode == 2 and "launch" in mistake.stderr
    assert run("ops", "no_such_op").returncode == 1


def test_the_function_returns_the_status(capfd):
    assert main(["ops", "relu"]) == 0
    assert "relu" in capfd.readouterr().out
    assert main(["inspect", "no-such-file"]) == 1
    assert "no-such-file" in capfd.readouterr().err


def test_launch_uses_this_interpreter(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import sys, talweg as tw\n"
        "total = tw.ones(1)\n"
        "tw.distributed.all_reduce(total)\n"
        "print('says', tw.distributed.rank(), total.item(), sys.executable)\n"
    )
    done = run("launch", "--workers", "2", str(script))
    assert done.returncode == 0, done.stdout + done.stderr
    said = sorted(re.findall(r"says (\d) ([\d.]+) (.*)", done.stdout))
    assert [(rank, float(total)) for rank, total, _ in said] == [("0", 2.0), ("1", 2.0)]
    assert {path for _, _, path in said} == {sys.executable}


def test_launch_reports_a_script_that_fails(tmp_path):
    script = tmp_path / "bad.py"
    script.write_text("raise SystemExit(3)\n")
    done = run("launch", "--workers", "1", "--max-restarts", "0", str(script))
    assert done.returncode == 1 and "failed" in done.stderr


@pytest.mark.parametrize("which, status", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_end_a_job_with_their_status(tmp_path, which, status):
    script = tmp_path / "slow.py"
    script.write_text("import time\nprint('ready', flush=True)\ntime.sleep(60)\n")
    job = subprocess.Popen(
        [*COMMAND, "launch", "--workers", "1", str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    try:
        for line in job.stdout:
            if "ready" in line:
                break
        job.send_signal(which)
        assert job.wait(timeout=60) == status
    finally:
        if job.poll() is None:
            os.killpg(job.pid, signal.SIGKILL)
            time.sleep(0.1)


def test_explain_shows_passes_regions_and_memory():
    text = run("explain").stdout
    assert all(part in text for part in ("== as written", "== after", "== compiled for cpu", "arena", "peak"))


def test_a_reader_may_stop():
    done = subprocess.run(f"{sys.executable} -m talweg ops | head -1", shell=True, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout.count("\n") == 1 and "panic" not in done.stderr


def test_bench_lists_its_workloads():
    assert "mlp100_adagrad" in run("bench", "list").stdout.split()


RULE = """
import pathlib

def admit(step, settled):
    with open(pathlib.Path(__file__).with_suffix(".log"), "a") as file:
        print(step, *settled, file=file)
    return step <= min(settled) + 3

def stuck(step, settled):
    return step < min(settled)

def undone(step, settled):
    return max(settled) < 4
"""

STORED = """
import talweg as tw

tw.manual_seed(0)
x = tw.randn(8, 3)
y = (x * tw.tensor([1.0, -2.0, 0.5])).sum(1, keepdims=True)
model = tw.nn.Linear(3, 1)
optimizer = tw.optim.SGD(model.parameters(), lr=0.1)
mine, wanted = tw.distributed.shard(x), tw.distributed.shard(y)
for step in range(20):
    tw.distributed.meet(lambda: b"")
    loss = ((model(mine) - wanted) ** 2).mean()
    loss.backward()
    optimizer.step()
print("loss", loss.item())
"""


def test_a_rule_of_consistency_in_python(tmp_path):
    rule, script = tmp_path / "rule.py", tmp_path / "script.py"
    rule.write_text(RULE)
    script.write_text(STORED)
    job = ["launch", "--workers", "2", "--servers", "1", "--consistency"]
    done = run(*job, f"{rule}:admit", str(script))
    assert done.returncode == 0, done.stdout + done.stderr
    losses = [float(v) for v in re.findall(r"loss ([\d.e-]+)", done.stdout)]
    assert len(losses) == 2 and max(losses) < 0.5
    asked = [[int(n) for n in line.split()] for line in (tmp_path / "rule.log").read_text().splitlines()]
    assert max(step for step, *_ in asked) >= 19, "the server asks the rule"
    for name, why in [
        ("stuck", "no worker can continue"),
        ("undone", "is admitted with .* but not with"),
        ("missing", "has no function missing"),
    ]:
        done = run(*job, f"{rule}:{name}", str(script))
        assert done.returncode == 1 and re.search(why, done.stderr), done.stderr


def test_bench_ops_keeps_results_and_finds_what_became_slower(tmp_path):
    def bench(*words):
        small = ["--only", "abs,sum_rows", "--direction", "forward", "--scale", "0.0001", "--seconds", "0.01"]
        return run("bench", "ops", *small, "--results", str(tmp_path), *words, cwd=tmp_path)

    first = bench("--save")
    assert first.returncode == 0, first.stdout + first.stderr
    (file,) = tmp_path.glob("*.json")
    kept = json.loads(file.read_text())
    assert [row["op"] for row in kept["rows"]] == ["abs", "sum_rows"]
    for row in kept["rows"]:
        row["talweg_ms"] /= 1e6
        row["ratio"] = row.get("ratio", 1) * 1e6
    file.write_text(json.dumps(kept))
    slower = bench()
    assert slower.returncode == 1 and "slower by" in slower.stdout and "sum_rows" in slower.stdout


DEADLY = """
import os, signal
class nn:
    functional = None
def set_num_threads(n):
    pass
def manual_seed(seed):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_bench_ops_goes_on_where_the_other_library_dies(tmp_path):
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text(DEADLY)
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    small = ["--only", "abs,sum_rows", "--direction", "forward", "--scale", "0.0001", "--seconds", "0.01"]
    done = run("bench", "ops", *small, "--results", str(tmp_path), "--save", env={**os.environ, "PYTHONPATH": path})
    assert done.returncode == 0, done.stdout + done.stderr
    (file,) = tmp_path.glob("*.json")
    rows = json.loads(file.read_text())["rows"]
    assert [row["op"] for row in rows] == ["abs", "sum_rows"]
    assert all("SIGKILL" in row["torch_error"] and row["talweg_ms"] > 0 for row in rows)
