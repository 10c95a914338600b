"""The models of the examples, trained briefly and written as ONNX: ONNX Runtime and `tw.onnx.load` give their outputs."""

import pathlib
import runpy

import numpy as np
import pytest

import talweg as tw

onnxruntime = pytest.importorskip("onnxruntime", reason="ONNX Runtime is the oracle of these tests")

EXAMPLES = pathlib.Path(__file__).parents[1] / "examples"
# The model in an example's names, and what it is given.
MODELS = {
    "autoencoder": ("model", lambda v: (v["x"][:3],)),
    "captions": ("model", lambda v: (v["images"][:3], v["codes"][:3, :-1])),
    "char_gpt": ("model", lambda v: (tw.randint(0, 9, (2, v["CONTEXT"])),)),
    "cnn": ("model", lambda v: (v["images"][:3],)),
    "digits": ("model", lambda v: (tw.rand(3, 28, 28),)),
    "gan": ("generator", lambda v: (tw.randn(3, v["NOISE"]),)),
    "gcn": ("model", lambda v: (v["nodes"], v["edges"])),
    "lstm": ("model", lambda v: (v["train"][0][:3],)),
    "mlp": ("model", lambda v: (tw.rand(3, 28, 28),)),
    "reinforce": ("policy", lambda v: (tw.randn(3, 4),)),
    "sentiment": ("model", lambda v: (tw.stack([v["test"][i][0] for i in range(3)]),)),
    "torch_loop": ("model", lambda v: (v["points"][:3],)),
}


def run(name, monkeypatch, tmp_path):
    """The model of an example that was trained briefly, and its inputs."""
    monkeypatch.setenv("TALWEG_QUICK", "1")
    monkeypatch.setattr("sys.argv", [f"{name}.py"])
    monkeypatch.chdir(tmp_path)
    names = runpy.run_path(str(EXAMPLES / f"{name}.py"))
    word, inputs = MODELS[name]
    return names[word].eval(), inputs(names)


def check(path, model, args):
    """Both readers of a file give what the model gives."""
    with tw.no_grad():
        want = np.asarray(model(*args))
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (got,) = session.run(None, {i.name: np.asarray(a) for i, a in zip(session.get_inputs(), args)})
    again = np.asarray(tw.onnx.load(str(path))(*args))
    for y in (got, again):
        assert y.shape == want.shape
        assert np.abs(y - want).max() <= 1e-4 * np.abs(want).max()


@pytest.mark.parametrize("name", MODELS)
def test_onnx_runtime_gives_the_same(name, monkeypatch, tmp_path):
    model, args = run(name, monkeypatch, tmp_path)
    tw.onnx.save(model, tmp_path / "model.onnx", args)
    check(tmp_path / "model.onnx", model, args)
    if name == "gcn":  # its nodes are no batch
        return
    tw.onnx.save(model, tmp_path / "free.onnx", args, dynamic_shapes=[{0: "batch"} for _ in args])
    for more in (args, [tw.cat([a, a]) for a in args], [a[:1] for a in args]):
        check(tmp_path / "free.onnx", model, more)


def test_every_input_has_an_entry(tmp_path):
    with pytest.raises(ValueError, match="2 entries for 1 inputs: x"):
        tw.onnx.save(lambda x: x * 2, tmp_path / "one.onnx", (tw.ones(3),), dynamic_shapes=[{0: "n"}, {0: "m"}])


def test_outputs_have_the_names_of_a_dict(tmp_path):
    tw.onnx.save(lambda x: {"double": x * 2, "half": x / 2}, tmp_path / "two.onnx", (tw.ones(3),), dynamic_shapes={"x": {0: "n"}})
    session = onnxruntime.InferenceSession(str(tmp_path / "two.onnx"), providers=["CPUExecutionProvider"])
    assert [o.name for o in session.get_outputs()] == ["double", "half"]
    assert session.run(["half"], {"x": np.ones(2, "float32")})[0].tolist() == [0.5, 0.5]


def test_onnx_runtime_runs_a_quantized_model(monkeypatch, tmp_path):
    """Integers of both differ by a step here and there: sums are exact in one and of floats in the other."""
    monkeypatch.setenv("TALWEG_QUICK", "1")
    monkeypatch.setattr("sys.argv", ["quantize.py"])
    names = runpy.run_path(str(EXAMPLES / "quantize.py"))
    model, (x, _) = names["model"], names["unseen"]
    small, report = tw.compress(model, "static", calibrate=names["calibrate"], min_gain=0.0)
    assert all(layer.after == "static int8" for layer in report.layers)
    path = tmp_path / "small.onnx"
    tw.onnx.save(small, path, (x[:3],), dynamic_shapes=[{0: "batch"}])
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    (got,) = session.run(None, {session.get_inputs()[0].name: np.asarray(x)})
    with tw.no_grad():
        want, original = np.asarray(small(x)), np.asarray(model(x))
    off = np.abs(want - original).mean()
    assert np.abs(got - want).mean() < 0.5 * off, "the runtimes are nearer to each other than to the floats"
    assert (got.argmax(1) == want.argmax(1)).mean() > 0.98
