"""Looking inside: check_numerics, profiles, explanations, graphs in files, frozen functions."""

import json
import pickle
import re
import subprocess
import sys

import numpy as np
import pytest

import talweg as tw
from talweg.profiler import ProfilerAction, ProfilerActivity, profile, record_function, schedule


def test_check_numerics_names_the_op_line_and_column():
    x = tw.zeros(2)
    with pytest.raises(tw.NumericsError, match=r"log: the first value that is not finite is -inf \(at .*test_observe") as e:
        with tw.check_numerics():
            y = x + 1; z = tw.log(x)  # noqa: E702
            (y * z).sum().item()
    line, column = map(int, re.search(r"py:(\d+):(\d+)\)", str(e.value)).groups())
    text = open(__file__).read().splitlines()[line - 1]
    assert text[column - 1 :].startswith("tw.log(x)")
    assert tw.log(x).sum().item() == -np.inf, "off again"


def test_check_numerics_in_jit_and_as_a_decorator():
    f = tw.jit(lambda x: tw.sqrt(x).sum())
    assert np.isnan(f(-tw.ones(2)).item())
    with tw.check_numerics(), pytest.raises(tw.NumericsError, match="sqrt"):
        f(-tw.ones(2))
    assert np.isnan(f(-tw.ones(2)).item())

    @tw.check_numerics()
    def bad():
        return tw.log(-tw.ones(1)).item()

    with pytest.raises(tw.NumericsError):
        bad()
    assert np.isnan(tw.log(-tw.ones(1)).item())


def test_check_numerics_as_a_switch_and_at_the_end_of_the_block():
    switch = tw.check_numerics(True)
    try:
        with pytest.raises(tw.NumericsError):
            tw.log(-tw.ones(1)).item()
    finally:
        switch.__exit__(None, None, None)
    w = tw.Variable([1.0])
    with pytest.raises(tw.NumericsError, match="div"):
        with tw.check_numerics():
            w.assign(w / 0)
    w.assign(tw.ones(1))
    assert w.item() == 1.0


def work():
    # Of a size that no other test has: equal programs are compiled once, with the lines of the first.
    return (tw.ones(48, 72) @ tw.ones(72, 56)).exp().sum().item()


def test_a_profile_has_regions_lines_and_spans():
    with tw.profile() as prof:
        with record_function("span"):
            work()
            work()
    rows = {r.key: r for r in prof.key_averages()}
    assert rows["matmul"].count == 2 and rows["matmul"].flops == 2 * 2 * 48 * 72 * 56 and rows["matmul"].bytes > 0
    assert rows["span"].count == 1 and rows["span"].cpu_time_total >= rows["matmul"].cpu_time_total
    assert rows["span"].self_cpu_time_total < rows["span"].cpu_time_total
    assert all("test_observe.py:" in where for where, _ in prof.lines())
    table = prof.table()
    assert all(word in table for word in ("matmul", "span", "GFLOP/s", "test_observe.py", "memory planned"))
    assert prof.key_averages().table(sort_by="count", row_limit=1).count("\n") == 2
    with pytest.raises(tw.ArgumentError, match="sort_by='weight' is none of"):
        prof.key_averages().table(sort_by="weight")


def test_timelines_name_threads_and_processes(tmp_path):
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as prof:
        work()
    prof.add_metadata("run", "7")
    prof.export_chrome_trace(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())
    assert trace["metadata"] == {"run": "7"}
    names = {e["name"] for e in trace["traceEvents"] if e["ph"] == "M"}
    assert names == {"process_name", "thread_name"}
    spans = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert any("matmul" in e["name"] for e in spans) and all({"ts", "dur", "pid", "tid"} <= set(e) for e in spans)
    known = {e["tid"] for e in trace["traceEvents"] if e["name"] == "thread_name"}
    assert {e["tid"] for e in spans} <= known


def test_a_schedule_records_the_steps_it_names():
    plan = schedule(wait=1, warmup=1, active=2, repeat=1, skip_first=1)
    actions = [plan(i) for i in range(6)]
    assert [a.name for a in actions] == ["NONE", "NONE", "WARMUP", "RECORD", "RECORD_AND_SAVE", "NONE"]
    assert actions[4] is ProfilerAction.RECORD_AND_SAVE
    ready = []
    with profile(schedule=plan, on_trace_ready=lambda p: ready.append([r.key for r in p.key_averages()])) as prof:
        for _ in range(6):
            work()
            prof.step()
    assert len(ready) == 1 and {"ProfilerStep#3", "ProfilerStep#4"} <= set(ready[0])


def test_one_profiler_at_a_time_and_nothing_before_it_stops():
    with profile() as prof:
        with pytest.raises(tw.ArgumentError, match="another profiler"):
            profile().start()
        with pytest.raises(tw.ArgumentError, match="nothing was recorded"):
            prof.key_averages()


def test_explain_shows_passes_regions_lines_and_memory():
    step = tw.jit(lambda x: (x + 1) * (x + 2))
    x = tw.ones(3)
    for text in (step.explain(x), tw.explain(step)(x), tw.explain(lambda x: (x + 1) * (x + 2))(x)):
        assert all(part in text for part in ("== as written", "== after", "== compiled for cpu", "loop", "peak"))
        assert "test_observe.py:" in text
    lazy = (x + 1) * (x + 2)
    assert tw.explain(lazy, stages=False).startswith("== compiled for cpu")
    assert "mul" in tw.explain(tw.graph(lazy))
    with pytest.raises(tw.DTypeError, match="explain: expected a function"):
        tw.explain(3)


class Net(tw.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer1, self.layer2 = tw.nn.Linear(2, 3), tw.nn.Linear(3, 1)

    def forward(self, x):
        return self.layer2(self.layer1(x).relu())


def test_parameters_have_their_names_in_graphs_and_pictures():
    model = Net()
    graph = tw.jit(lambda x: model(x)).graph(tw.ones(1, 2))
    assert "layer1.weight" in str(graph) and "layer2.bias" in graph.svg()
    assert [name for name, _, _ in graph.inputs][1:] == ["layer1.weight", "layer1.bias", "layer2.weight", "layer2.bias"]
    other = Net()
    both = tw.jit(lambda x: model(x) + other(x)).graph(tw.ones(1, 2))
    assert "model.layer1.weight" in str(both) and "other.layer1.weight" in str(both)


def test_frozen_functions_keep_the_weights_they_had():
    model = Net()
    x = tw.randn(4, 2)
    f = tw.jit(lambda x: model(x))
    frozen, before = f.frozen(), model(x).tolist()
    assert np.allclose(frozen(x).numpy(), before)
    with tw.no_grad():
        model.layer1.weight.fill_(0.0)
    assert np.allclose(frozen(x).numpy(), before) and not np.allclose(f(x).numpy(), before)


@pytest.mark.parametrize("name", ["model.tw", "model.txt"])
def test_graphs_go_through_files(tmp_path, name):
    model, x = Net(), tw.randn(4, 2)
    graph = tw.jit(lambda x: model(x)).frozen().graph(x)
    graph.save(tmp_path / name)
    loaded = tw.Graph.load(tmp_path / name)
    assert str(loaded) == str(graph) and [shape for _, _, shape in loaded.inputs] == [[4, 2]]
    want = model(x).numpy()
    assert np.allclose(loaded(x)[0].numpy(), want, rtol=1e-6)
    assert np.allclose(tw.jit(lambda x: loaded(x)[0] * 2)(x).numpy(), 2 * want, rtol=1e-6)
    assert tw.grad(lambda x: loaded(x)[0].sum())(x).shape == (4, 2)
    assert str(tw.Graph.parse(str(graph))) == str(pickle.loads(pickle.dumps(graph))) == str(graph)
    for command in ("inspect", "explain"):
        done = subprocess.run(
            [sys.executable, "-m", "talweg", command, str(tmp_path / name)], capture_output=True, text=True, timeout=60
        )
        assert done.returncode == 0 and "linear" in done.stdout, done.stderr


def test_mistakes_with_graphs_are_named(tmp_path):
    graph = tw.jit(lambda x: x + 1).graph(tw.ones(2))
    with pytest.raises(tw.ArgumentError, match="takes 1 inputs, but 2"):
        graph(tw.ones(2), tw.ones(2))
    with pytest.raises(tw.ArgumentError, match=r"is float32\[2\], but float32\[3\] was given"):
        graph(tw.ones(3))
    with pytest.raises(tw.Error, match="no-such"):
        tw.Graph.load(tmp_path / "no-such")
    (tmp_path / "bad").write_text("talweg graph 1\n%0 = nothing\n")
    with pytest.raises(tw.FormatError, match="bad"):
        tw.Graph.load(tmp_path / "bad")
    called = tw.jit(lambda x: tw.pure_callback(lambda v: v, x, x)).graph(tw.ones(2))
    with pytest.raises(tw.ArgumentError, match="a file cannot hold it"):
        called.save(tmp_path / "called")
