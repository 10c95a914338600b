"""Tables of the parameter store: of a process alone, and between processes that are launched."""

import os
import re
import subprocess
import sys

import pytest
import talweg as tw
from talweg.distributed import Table, clock, staleness, step, wait
from test_launch import TALWEG


def test_a_step_counts_when_it_ends():
    before = step()
    table = Table(tw.zeros(2, 3))
    table.push(tw.ones(2, 3))
    table.push(tw.full((1, 3), 5.0), rows=tw.tensor([1]))
    table.push(tw.ones(2, 3))
    assert table.pull().sum().item() == 0
    clock()
    wait()
    assert table.pull().tolist() == [[2, 2, 2], [7, 7, 7]] and step() == before + 1
    assert table.pull(rows=[1, 0, 1]).tolist() == [[7, 7, 7], [2, 2, 2], [7, 7, 7]]
    assert table.pull(rows=[]).shape == (0, 3) and staleness() == []
    assert repr(table) == "Table(shape=(2, 3))"


def test_an_update_sees_the_sum_of_what_was_pushed():
    # More rows than are updated at once, and one that is named twice.
    table = Table(tw.ones(9_000), lambda w, g, n: (w - g / n, n + 1), state=[2], by_rows=True)
    table.push([1.0, 2.0, 4.0], rows=[8_999, 0, 8_999])
    clock()
    assert table.pull(rows=[0, 1, 8_999]).tolist() == [0, 1, 1 - 5 / 2]
    table.push(tw.ones(9_000))
    clock()
    assert table.pull(rows=[0, 1, 8_999]).numpy() == pytest.approx([0 - 1 / 3, 1 - 1 / 2, -1.5 - 1 / 3])
    scale = tw.tensor([1.0, 1.0])
    whole = Table(tw.tensor([3.0, 4.0]), lambda w, g: scale * (w + g) / (w + g).square().sum().sqrt())
    whole.push(tw.zeros(2))
    clock()
    assert whole.pull().numpy() == pytest.approx([0.6, 0.8])


def test_what_is_wrong_is_told():
    table = Table(tw.zeros(2, 3))
    whole = Table(tw.zeros(2), lambda w, g: w + g)
    other = tw.nn.Parameter([1.0, 2.0])
    for call, kind, text in [
        (lambda: Table(tw.zeros(2, dtype="int64")), TypeError, "a table holds float32, not int64"),
        (lambda: Table(3.0), ValueError, "a table has rows of elements, but its values are []"),
        (lambda: Table("a"), TypeError, "expected a tensor, a number or an array, not str"),
        (lambda: Table(tw.zeros(2), "add"), TypeError, "update is str, not a function"),
        (lambda: Table(tw.zeros(2), state=[1]), ValueError, "without an update nothing keeps a state"),
        (lambda: Table(tw.zeros(2), lambda w, g: 3), TypeError, "it must return the new values"),
        (lambda: Table(tw.zeros(2), lambda w, g: (w, g)), ValueError, "the state has 0 parts, the update gives 1"),
        (lambda: Table(tw.zeros(2), lambda w, g: w.sum()), ValueError, "must be [2], as the update was given, not []"),
        (lambda: Table(tw.zeros(2), lambda w, g: w * other), ValueError, "the rule reads the variable"),
        (lambda: table.push(tw.ones(3)), ValueError, "expected [2, 3], found [3]"),
        (lambda: table.push(tw.ones(1, 3), rows=[0, 1]), ValueError, "expected [2, 3], found [1, 3]"),
        (lambda: table.push(tw.ones(2, 3, dtype="float64")), TypeError, "a table holds float32, not float64"),
        (lambda: table.pull(rows=[2]), IndexError, "row 2 is not one of 2 rows"),
        (lambda: table.pull(rows=[-1]), IndexError, "rows are counted from 0: there is no -1"),
        (lambda: table.pull(rows=["a"]), TypeError, "rows: "),
        (lambda: whole.push([1.0], rows=[0]), ValueError, "takes whole tables, not rows"),
    ]:
        with pytest.raises(tw.Error) as e:
            call()
        assert isinstance(e.value, kind) and text in str(e.value), str(e.value)
    with pytest.raises(ZeroDivisionError):
        Table(tw.zeros(2), lambda w, g: 1 / 0)


SCRIPT = """
import os, signal, sys
import talweg as tw
from talweg import distributed as dist

rank, fallen = dist.rank(), sys.argv[1]
sums = dist.Table(tw.zeros(3, 2))
weights = dist.Table(tw.ones(5), lambda w, g, n: (w - g / (n + 1), n + 1), state=[0], by_rows=True)
norm = dist.Table(tw.tensor([3.0, 4.0]), lambda w, g: (w + g) / (w + g).square().sum().sqrt())
for step in range(dist.step(), 6):
    sums.push([[1.0, rank]], rows=[rank])
    weights.push([1.0, 1.0], rows=[4, rank])
    norm.push(tw.zeros(2))
    if fallen and step == 3 and rank == 1 and not os.path.exists(fallen):
        open(fallen, "w").close()
        os.kill(os.getpid(), signal.SIGKILL)
    dist.clock()
    seen = sums.pull()[rank, 0].item()
    assert seen == step + 1, (seen, step)
dist.wait()
counts = dist.staleness()
assert sum(counts) > 0
print(f"staleness {counts}")
print("ends with", [sums.pull().tolist(), weights.pull().tolist(), norm.pull().tolist()])
"""


def launched(folder, *args, fallen=""):
    script = folder / "store.py"
    script.write_text(SCRIPT)
    words = [str(TALWEG), "launch", "--workers", "2", *args, sys.executable, str(script), str(fallen)]
    return subprocess.run(words, capture_output=True, text=True, timeout=120)


@pytest.mark.skipif(TALWEG is None, reason="the talweg command has not been built")
def test_workers_share_tables_and_a_killed_one_leaves_no_trace(tmp_path):
    ends = []
    for fallen in ["", tmp_path / "fallen"]:
        done = launched(tmp_path, "--servers", "2", fallen=fallen)
        assert done.returncode == 0, done.stdout + done.stderr
        found = [eval(e) for e in re.findall(r"ends with (.*)", done.stdout)]
        assert len(found) == 2 and found[0] == found[1], done.stdout
        ends.append(found[0])
        # Bulk-synchronous: no read was ahead of another worker.
        assert all(eval(s)[1:] == [0] * 16 for s in re.findall(r"staleness (.*)", done.stdout)), done.stdout
    assert os.path.exists(tmp_path / "fallen") and ends[0] == ends[1]
    sums, weights, norm = ends[0]
    assert sums == [[6, 0], [6, 6], [0, 0]] and norm == pytest.approx([0.6, 0.8])
    alone, both = [1 - sum(1 / (n + 1) for n in range(count)) for count in (6, 12)]
    assert weights == pytest.approx([alone, alone, 1, 1, both], abs=1e-5)


@pytest.mark.skipif(TALWEG is None, reason="the talweg command has not been built")
def test_tables_under_other_consistencies_and_without_servers(tmp_path):
    done = launched(tmp_path, "--servers", "1", "--consistency", "ssp:3")
    assert done.returncode == 0 and "ends with" in done.stdout, done.stdout + done.stderr
    done = launched(tmp_path, "--max-restarts", "0")
    assert done.returncode != 0 and "tables need servers (talweg launch --servers)" in done.stdout + done.stderr
