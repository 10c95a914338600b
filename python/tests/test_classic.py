"""The classic algorithms of ``examples/classic.py``, alone and on a launched store."""

import os
import subprocess
import sys

import pytest
from test_launch import ROOT, TALWEG

NAMES = ["logistic", "lasso", "mixture", "kmeans", "factors", "topics", "forest"]


@pytest.mark.parametrize("workers", [1, 2])
def test_each_finds_what_its_data_were_made_from(workers):
    if workers > 1 and TALWEG is None:
        pytest.skip("the talweg command has not been built")
    words = [] if workers == 1 else [str(TALWEG), "launch", "--workers", str(workers), "--servers", "1"]
    words += [sys.executable, str(ROOT / "python/examples/classic.py")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=240, env={**os.environ, "TALWEG_QUICK": "1"})
    assert done.returncode == 0, done.stdout + done.stderr
    said = [line.split("] ")[-1].split(": ")[0] for line in done.stdout.splitlines()]
    assert [name for name in said if name in NAMES] == NAMES, done.stdout
