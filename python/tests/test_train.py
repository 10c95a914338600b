"""The trainer: losses, checkpoints that resume exactly, Ctrl-C, evaluation, records, what notebooks show."""

import io
import json
import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import talweg as tw
from talweg import nn
from talweg.train import Callback, Progress, Trainer
from talweg.utils.data import DataLoader, Dataset


def problem(seed=0, jit=False, **settings):
    tw.manual_seed(5)
    x = tw.randn(48, 4).eval()
    y = (x.sum(1) > 0).long()
    tw.manual_seed(seed)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(0.1), nn.Linear(8, 2))
    optimizer = tw.optim.Adam(model.parameters(), lr=0.05)
    loader = DataLoader((x, y), batch_size=10, shuffle=True)
    settings.setdefault("epochs", 4)
    settings.setdefault("progress", False)
    trainer = Trainer(model, optimizer, loader, jit=jit, **settings)
    return trainer, lambda x, y: nn.functional.cross_entropy(model(x), y)


@pytest.mark.parametrize("jit", [False, True])
def test_it_learns_and_counts(jit):
    trainer, loss = problem(jit=jit, epochs=10)
    history = trainer.fit(loss)
    losses = [x for _, x in history.losses]
    assert history.stop == "done" and trainer.step == trainer.total == 50 and trainer.epoch == 10
    assert np.mean(losses[-5:]) < 0.5 * np.mean(losses[:5])


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize("stop", [3, 5, 12])
def test_a_resumed_run_is_the_same_to_the_bit(tmp_path, jit, stop):
    whole, loss = problem(jit=jit, clip_norm=1.0)
    expected = whole.fit(loss).losses
    first, loss = problem(jit=jit, clip_norm=1.0, checkpoints=tmp_path, save_every=100, callbacks=[StopAt(stop)])
    assert first.fit(loss).stop == "interrupted"
    # Another process would have other initial values and another place in the random numbers.
    second, loss = problem(seed=9, jit=jit, clip_norm=1.0, checkpoints=tmp_path)
    assert second.resume() == stop
    assert first.history.losses + second.fit(loss).losses == expected
    assert whole.model.state_dict()["0.weight"].tolist() == second.model.state_dict()["0.weight"].tolist()


class StopAt(Callback):
    def __init__(self, step):
        self.at = step

    def on_step(self, trainer, loss):
        if trainer.step == self.at:
            trainer.stop()


def test_random_examples_resume_exactly_too(tmp_path):
    class Noisy(Dataset):
        def __len__(self):
            return 6

        def __getitem__(self, i):
            return tw.full((2,), float(i)) + tw.randn(2)

    def run(**settings):
        tw.manual_seed(1)
        w = nn.Linear(2, 1)
        loader = DataLoader(Noisy(), batch_size=2, shuffle=True)
        t = Trainer(w, tw.optim.SGD(w.parameters(), lr=1e-2), loader, epochs=3, progress=False, **settings)
        return t, lambda x: w(x).square().mean()

    whole, loss = run()
    expected = whole.fit(loss).losses
    first, loss = run(checkpoints=tmp_path, callbacks=[StopAt(4)])
    first.fit(loss)
    second, loss = run(checkpoints=tmp_path)
    assert second.resume() == 4
    assert first.history.losses + second.fit(loss).losses == expected


def test_a_run_does_not_overtake_checkpoints(tmp_path):
    trainer, loss = problem(checkpoints=tmp_path)
    trainer.fit(loss)
    again, loss = problem(checkpoints=tmp_path)
    with pytest.raises(ValueError, match="resume, or choose another folder"):
        again.fit(loss)
    smaller = nn.Linear(4, 2)
    other = Trainer(smaller, tw.optim.Adam(smaller.parameters()), [], checkpoints=tmp_path, progress=False)
    with pytest.raises(KeyError, match="missing"):
        other.resume()
    empty, _ = problem(checkpoints=tmp_path / "new")
    assert empty.resume() is None


def test_a_damaged_checkpoint_is_passed_over(tmp_path):
    warnings = []

    class Heard(tw.train.Silent):
        def warn(self, text):
            warnings.append(text)

    trainer, loss = problem(checkpoints=tmp_path)
    trainer.fit(loss)
    files = sorted(tmp_path.glob("*.safetensors"))
    assert len(files) == 3 and files[-1].name == "step-0000000020.safetensors"
    files[-1].write_bytes(files[-1].read_bytes()[:-7])
    again, _ = problem(checkpoints=tmp_path, progress=Heard())
    assert again.resume() == 15 and "step-0000000020" in warnings[0]


def test_evaluation_watches_and_stops(tmp_path):
    figures = iter([0.5, 0.8, 0.7, 0.6, 0.9])
    trainer, loss = problem(
        epochs=9,
        evaluate=lambda: {"accuracy": next(figures)},
        watch="accuracy",
        maximize=True,
        patience=2,
        checkpoints=tmp_path,
        keep_last=1,
        keep_best=1,
    )
    history = trainer.fit(loss)
    assert history.stop == "early" and history.best == (0.8, 10) and trainer.epoch == 4
    assert [p.name for p in sorted(tmp_path.glob("*.safetensors"))] == [f"step-{s:010}.safetensors" for s in (10, 20)]
    assert trainer.model.training, "evaluation puts the mode back"
    with pytest.raises(ValueError, match="no figure 'f1'"):
        trainer, loss = problem(evaluate=lambda: {"accuracy": 1.0}, watch="f1")
        trainer.fit(loss)


def test_schedules_are_followed_and_resumed(tmp_path):
    def run(**settings):
        trainer, loss = problem(**settings)
        trainer._schedule = tw.optim.lr_scheduler.CosineAnnealingLR(trainer.optimizer, 20)
        return trainer, loss

    whole, loss = run()
    expected = whole.fit(loss).losses
    first, loss = run(checkpoints=tmp_path, callbacks=[StopAt(7)])
    first.fit(loss)
    second, loss = run(checkpoints=tmp_path)
    second.resume()
    assert second.optimizer.lr == pytest.approx(first.optimizer.lr)
    assert first.history.losses + second.fit(loss).losses == expected

    trainer, loss = problem(evaluate=lambda: {"x": 1.0}, watch="x", epochs=4)
    trainer._schedule = tw.optim.lr_scheduler.ReduceLROnPlateau(trainer.optimizer, patience=1)
    trainer.fit(loss)
    assert trainer.optimizer.lr == pytest.approx(0.005)


def test_any_iterable_is_a_loader():
    w = nn.Linear(1, 1)

    def fit(loader, **settings):
        t = Trainer(w, tw.optim.SGD(w.parameters(), lr=1e-3), loader, progress=False, **settings)
        t.fit(lambda x: w(x).square().mean())
        return t

    batches = [np.ones((2, 1), "float32"), np.zeros((3, 1), "float32")]
    assert fit(map(tw.tensor, batches)).step == 2
    assert fit([{"x": tw.ones(2, 1)}, {"x": tw.ones(1, 1)}], epochs=3).step == 6
    assert fit([tw.ones(2, 1)], steps=5).step == 5
    with pytest.raises(ValueError, match="used once only"):
        fit(iter([tw.ones(2, 1)]), epochs=2)
    with pytest.raises(ValueError, match="no batches"):
        fit([])
    # A run that could only spin, from one empty epoch to the next.
    for settings in ({"epochs": 3}, {"steps": 5}, {"epochs": 1_000_000_000}):
        with pytest.raises(ValueError, match="no batches"):
            fit([], **settings)

    class Once:
        passes = 0

        def __iter__(self):
            self.passes += 1
            return iter([tw.ones(2, 1)] if self.passes == 1 else [])

    with pytest.raises(ValueError, match="no batches|used once only"):
        fit(Once(), steps=5)
    with pytest.raises(TypeError, match="not an iterable"):
        fit(5)
    with pytest.raises(ValueError, match="give one of them"):
        fit([], epochs=1, steps=1)


def test_loaders_take_what_people_have():
    arrays = (np.arange(5, dtype="float32"), np.arange(5))
    assert [x.tolist() for x, _ in DataLoader(arrays, batch_size=2)] == [[0, 1], [2, 3], [4]]
    stream = DataLoader((i for i in range(5)), batch_size=2, drop_last=True)
    assert [b.tolist() for b in stream] == [[0, 1], [2, 3]]
    words = DataLoader([{"word": "a", "n": 1}, {"word": "b", "n": 2}], batch_size=2)
    assert [(b["word"], b["n"].tolist()) for b in words] == [(["a", "b"], [1, 2])]
    loader = DataLoader(arrays, batch_size=2, shuffle=True)
    first, second = ([x.tolist() for x, _ in loader] for _ in range(2))
    assert first != second
    assert [x.tolist() for x, _ in loader.batches_from(1, 0)] == first[1:]
    assert [x.tolist() for x, _ in loader] == second


def test_workers_and_threads_prepare_the_same_batches():
    class Squares(Dataset):
        def __len__(self):
            return 23

        def __getitem__(self, i):
            if i == 22:
                raise RuntimeError("the last one")
            return tw.tensor(float(i)) ** 2

    def seen(**settings):
        tw.manual_seed(4)
        out = []
        with pytest.raises(RuntimeError, match="the last one"):
            for batch in DataLoader(Squares(), batch_size=3, **settings):
                out.append(batch.tolist())
        return out

    assert seen() == seen(num_workers=3) == seen(num_workers=3, multiprocessing_context="thread") and len(seen()) == 7
    assert [b.tolist() for b in DataLoader((tw.arange(5),), batch_size=2, num_workers=2) for b in b] == [[0, 1], [2, 3], [4]]


def test_bad_losses_are_told():
    trainer, _ = problem()
    with pytest.raises(TypeError, match="not a tensor"):
        trainer.fit(lambda x, y: 1.0)
    trainer, loss = problem()
    with pytest.raises(tw.NumericsError, match="step 1"):
        trainer.fit(lambda x, y: loss(x, y) * float("nan"))


def test_records(tmp_path):
    trainer, loss = problem(journal=tmp_path / "log.jsonl", events=tmp_path / "events", evaluate=lambda: {"a": 0.5})
    trainer.fit(loss)
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [x["step"] for x in lines if "train/loss" in x] == list(range(1, 21))
    assert [x["step"] for x in lines if "evaluation/a" in x] == [5, 10, 15, 20]
    assert [p for p in (tmp_path / "events").iterdir() if "tfevents" in p.name]


def test_callbacks_hear_of_everything():
    heard = []

    class Ears(Callback):
        def on_begin(self, trainer):
            heard.append("begin")

        def on_step(self, trainer, loss):
            heard.append(trainer.step)

        def on_epoch(self, trainer):
            heard.append(f"epoch {trainer.epoch}")

        def on_evaluate(self, trainer, figures):
            heard.append(figures)

        def on_end(self, trainer):
            heard.append(trainer.history.stop)

    trainer, loss = problem(epochs=1, evaluate=lambda: {"a": tw.tensor(0.5)}, callbacks=[Ears()])
    trainer.fit(loss)
    assert heard == ["begin", 1, 2, 3, 4, 5, "epoch 1", {"a": 0.5}, "done"]


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_in_a_terminal_and_in_a_file():
    out = Terminal()
    trainer, loss = problem(progress=Progress(out), evaluate=lambda: {"accuracy": 0.5})
    trainer.fit(loss)
    last = out.getvalue().split("\r")[-1]
    assert "█" * 24 in last and "step 20 of 20" in last and "accuracy 0.5" in last and last.endswith("\n")
    out = io.StringIO()
    trainer, loss = problem(progress=Progress(out), evaluate=lambda: {"accuracy": 0.5})
    trainer.fit(loss)
    assert "\r" not in out.getvalue() and out.getvalue().count("\n") == 5


def test_progress_in_a_notebook(monkeypatch):
    shown = []

    class Handle:
        def update(self, html):
            shown.append(html)

    class ZMQInteractiveShell:
        pass

    class Display:
        HTML = staticmethod(lambda text: text)

        @staticmethod
        def display(html, display_id):
            shown.append(html)
            return Handle()

    class IPython:
        display = Display
        get_ipython = staticmethod(ZMQInteractiveShell)

    monkeypatch.setitem(sys.modules, "IPython", IPython)
    monkeypatch.setitem(sys.modules, "IPython.display", Display)
    trainer, loss = problem(progress=Progress())
    history = trainer.fit(loss)
    assert shown[0].startswith('<progress value="0" max="20"') and "<svg" in shown[-1]
    assert history._repr_svg_().count("<polyline") == 1


def test_curves_are_pictures():
    import xml.etree.ElementTree as xml

    svg = tw.train.curves({"loss <&>": [(i, 1 / i) for i in range(1, 5000)], "one": [(3, 2.0)], "none": []})
    tree = xml.fromstring(svg)
    lines = [e for e in tree.iter() if e.tag.endswith("polyline")]
    assert len(lines) == 2 and len(lines[0].get("points").split()) <= 400
    assert xml.fromstring(tw.train.curves({"x": [(1, float("nan"))]})) is not None


@pytest.mark.skipif(not hasattr(signal, "SIGINT") or os.name == "nt", reason="no signals")
def test_ctrl_c_leaves_a_checkpoint(tmp_path):
    program = """
        import os, signal, sys
        signal.signal(signal.SIGINT, signal.default_int_handler)
        import talweg as tw
        model = tw.nn.Linear(8, 8)
        data = [tw.randn(16, 8)]
        class Press(tw.train.Callback):
            def on_step(self, trainer, loss):
                if trainer.step == 5:
                    os.kill(os.getpid(), signal.SIGINT)
        t = tw.train.Trainer(model, tw.optim.SGD(model.parameters(), lr=1e-3), data, steps=10**9,
                             checkpoints=sys.argv[1], save_every=10**9, callbacks=[Press()], progress=False)
        print(t.fit(lambda x: model(x).square().mean()).stop, t.step)
        # From here on Ctrl-C is Python's own again.
        try:
            os.kill(os.getpid(), signal.SIGINT)
            tw.while_loop(lambda i: i >= 0, lambda i: i + 1 - 1, tw.tensor(1)).item()
        except KeyboardInterrupt:
            print("raised")
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(program), str(tmp_path)], capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["interrupted", "5", "raised"], done
    model = nn.Linear(8, 8)
    again = Trainer(model, tw.optim.SGD(model.parameters(), lr=1e-3), [], checkpoints=tmp_path, progress=False)
    assert again.resume() == 5


def test_notebooks_show_tensors_and_graphs():
    import xml.etree.ElementTree as xml

    html = tw.tensor([[1.0, float("inf")], [2.0, -3.0]])._repr_html_()
    assert "from -3.0000 to 2.0000" in html and "1 not finite" in html and "talweg.float32" in html
    assert "to be computed" in tw.placeholder("float32", [2])._repr_html_()
    x = tw.placeholder("float32", [2, 2], name="x")
    graph = tw.graph((x @ x).tanh().sum())
    assert "matmul" in str(graph) and "matmul" in graph.ops and len(graph) >= 3
    assert "tanh" in xml.tostring(xml.fromstring(graph._repr_svg_()), encoding="unicode")
    assert graph.dot().startswith("digraph")
    w = tw.Variable(tw.zeros(2))

    @tw.jit
    def step(x):
        w.assign(w + x)
        return w.sum()

    assert "add" in step.graph(tw.ones(2)).ops and w.tolist() == [0.0, 0.0]
