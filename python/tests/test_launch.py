"""An ordinary script on several processes, if the `talweg` command has been built."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
TALWEG = next((p for p in (TARGET / "debug/talweg", TARGET / "release/talweg") if p.exists()), None)

SCRIPT = """
import talweg as tw
from talweg import nn, optim

tw.manual_seed(0)
x = tw.randn(8, 3)
y = (x * tw.tensor([1.0, -2.0, 0.5])).sum(1, keepdims=True)
model = nn.Linear(3, 1)
optimizer = optim.Adam(model.parameters(), lr=0.1)
mine, wanted = tw.distributed.shard(x), tw.distributed.shard(y)
for step in range(20):
    assert tw.distributed.meet(lambda: b"") is None
    optimizer.zero_grad()
    ((model(mine) - wanted) ** 2).mean().backward()
    optimizer.step()
print("weights", [v for p in model.parameters() for v in p.numpy().ravel().tolist()])
"""


def run(words, folder):
    script = folder / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run([*words, sys.executable, str(script)], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return [eval(w) for w in re.findall(r"weights (\[.*\])", done.stdout)]


@pytest.mark.skipif(TALWEG is None, reason="the talweg command has not been built")
@pytest.mark.parametrize("servers", ["0", "1"])
def test_workers_agree_and_learn_what_one_process_learns(tmp_path, servers):
    (alone,) = run([], tmp_path)
    both = run([str(TALWEG), "launch", "--workers", "2", "--servers", servers], tmp_path)
    assert len(both) == 2 and both[0] == both[1]
    # The mean of two means of halves is rounded otherwise than one mean.
    assert both[0] == pytest.approx(alone, abs=1e-4)
