"""Exported models and the server: the answers of `talweg serve` are those of the model in this process."""

import json
import socket
import subprocess
import sys
import threading
import urllib.request

import numpy as np
import pytest

import talweg as tw
from talweg import nn


def make():
    tw.manual_seed(3)
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Linear(16, 4)).eval()


def export(directory, net=None):
    net = net or make()

    def scores(x):
        y = net(x)
        return {"logits": y, "label": y.argmax(-1)}

    tw.export(scores, directory, (tw.zeros(1, 6),), dynamic_shapes={"x": {0: "batch"}})
    return scores


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A server of one model: its address, and the model in this process."""
    repository = tmp_path_factory.mktemp("repository")
    export(repository / "net" / "1")
    command = [sys.executable, "-m", "talweg", "serve", str(repository), "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    line = server.stdout.readline()
    assert line, "the server did not start"
    try:
        yield line.split()[3].rstrip("/"), tw.serve.load(repository / "net" / "1"), repository
    finally:
        server.terminate()
        assert server.wait(60) == 0


def example(rows=1, seed=0):
    return np.random.default_rng(seed).standard_normal((rows, 6)).astype(np.float32)


def same_shape_answer(ask, rows):
    """Asks until the batch was not padded: then the answer is the model's, bit for bit."""
    for _ in range(500):
        answer, size = ask()
        if size == rows:
            return answer
    raise AssertionError("the size was never compiled")


def test_exported_models_run_here(tmp_path):
    scores = export(tmp_path / "m")
    model = tw.serve.load(tmp_path / "m")
    assert model.name == "scores" and model.is_batched
    assert [i["shape"] for i in model.inputs] == [["batch", 6]]
    assert [o["name"] for o in model.outputs] == ["logits", "label"]
    for rows in (1, 3, 17):
        x = tw.tensor(example(rows))
        got, want = model(x), scores(x)
        assert tw.allclose(got["logits"], want["logits"], atol=1e-5) and tw.equal(got["label"], want["label"])
    assert "scores" in repr(model)
    with pytest.raises(tw.errors.Error, match="expected float32"):
        model(tw.zeros(2, 5))
    with pytest.raises(TypeError, match="'x' is missing"):
        model()


def test_dimensions_have_bounds_and_names(tmp_path):
    def f(tokens, mask):
        return (tokens * mask).sum(1)

    length = tw.Dim("length", max=8)
    shapes = {"tokens": {0: "batch", 1: length}, "mask": {0: "batch", 1: length}}
    tw.export(f, tmp_path / "m", (tw.ones(2, 3),), {"mask": tw.ones(2, 3)}, dynamic_shapes=shapes, name="masked", output_names=["sum"])
    model = tw.serve.load(tmp_path / "m")
    assert model(tokens=tw.ones(1, 8), mask=tw.ones(1, 8))["sum"].tolist() == [8.0]
    with pytest.raises(tw.errors.Error, match="length is 9"):
        model(tw.ones(1, 9), tw.ones(1, 9))
    with pytest.raises(tw.errors.Error, match="length is 4, but was 3"):
        model(tw.ones(1, 3), tw.ones(1, 4))


def test_modules_export_themselves(tmp_path):
    net = make()
    net.train()
    net[0].eval()
    net.export(
        tmp_path / "m", tw.zeros(1, 6, dtype=tw.uint8), name="pixels",
        preprocess=lambda image: image.float() / 255, postprocess=lambda y: {"label": y.argmax(-1), "score": y.max(-1).values},
    )
    assert net.training and not net[0].training, "modes are as before"
    model = tw.serve.load(tmp_path / "m")
    assert model.name == "pixels" and model.inputs == [{"name": "image", "dtype": "u8", "shape": ["batch", 6]}]
    pixels = tw.randint(0, 256, (5, 6)).to(tw.uint8)
    want = net.eval()(pixels.float() / 255)
    got = model(pixels)
    assert tw.equal(got["label"], want.argmax(-1)) and tw.allclose(got["score"], want.max(-1).values, atol=1e-5)
    net.export(tmp_path / "two", tw.zeros(2, 6), dynamic_shapes=None, input_names=["rows"])
    assert tw.serve.load(tmp_path / "two").inputs == [{"name": "rows", "dtype": "f32", "shape": [2, 6]}]
    with pytest.raises(ValueError, match="1 inputs need as many names, not 2"):
        net.export(tmp_path / "m", tw.zeros(2, 6), input_names=["a", "b"])


PROGRAM = """
import talweg as tw
from talweg import nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(3, 2)

    def forward(self, x):
        return self.a(x)

def double(tokens):
    return tokens * 2

if __name__ == "__main__":
    raise SystemExit("this trains")
"""


def test_the_command_exports(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    weights = {"a.weight": tw.ones(2, 3), "a.bias": tw.zeros(2)}
    tw.save(weights, tmp_path / "net.safetensors")
    source = str(tmp_path / "program.py")
    run = lambda *words: subprocess.run([sys.executable, "-m", "talweg", "export", *words], capture_output=True, text=True, timeout=120)
    done = run(f"{source}:Net", str(tmp_path / "net"), "--input", "x=f32[batch,3]", "--output", "y",
               "--weights", str(tmp_path / "net.safetensors"))
    assert done.returncode == 0, done.stderr
    model = tw.serve.load(tmp_path / "net")
    assert model.name == "Net" and model(tw.ones(4, 3))["y"].tolist() == [[3.0, 3.0]] * 4
    done = run(f"{source}:double", str(tmp_path / "double"), "--input", "t=i64[batch,length<=8]", "--name", "twice")
    assert done.returncode == 0, done.stderr
    model = tw.serve.load(tmp_path / "double")
    assert model.name == "twice" and model.inputs[0]["name"] == "t" and model(t=tw.ones(1, 8, dtype=tw.int64))["output"].sum() == 16
    for words, what in [((f"{source}:nothing", "d", "--input", "x=f32[1]"), "has no 'nothing'"),
                        ((f"{source}:double", "d", "--input", "x=q7[1]"), "no type 'q7'"),
                        ((f"{source}:double", "d", "--input", "x"), "expected NAME=TYPE")]:
        done = run(*words)
        assert done.returncode == 1 and what in done.stderr, done.stderr


def test_what_cannot_be_exported_is_refused(tmp_path):
    x = tw.ones(2, 3)
    with pytest.raises(ValueError, match="call eval"):
        tw.export(nn.Dropout(0.5).train(), tmp_path / "m", (x,))
    with pytest.raises(tw.errors.Error, match="draws random numbers"):
        tw.export(lambda x: x + tw.rand(3), tmp_path / "m", (x,))
    with pytest.raises(tw.errors.Error, match="depends on the size"):
        tw.export(lambda x: x.relu() if x.shape[0] > 4 else x.tanh(), tmp_path / "m", (x,), dynamic_shapes={"x": {0: "n"}})
    with pytest.raises(ValueError, match="no input 'y'"):
        tw.export(lambda x: x, tmp_path / "m", (x,), dynamic_shapes={"y": {0: "n"}})
    with pytest.raises(TypeError, match="must be a tensor"):
        tw.export(lambda x, n: x, tmp_path / "m", (x, 3))
    assert not (tmp_path / "m").exists()


def test_the_client_gets_the_models_answers(served):
    url, model, _ = served
    with tw.serve.Client(url) as client:
        assert client.is_live() and client.is_ready() and client.is_ready("net") and not client.is_ready("other")
        assert client.metadata("net")["inputs"] == [{"name": "x", "datatype": "FP32", "shape": [-1, 6]}]
        for rows in (1, 2, 9):
            x = example(rows, rows)
            want = model(x)
            got = client.infer("net", {"x": tw.tensor(x)}, priority=1, timeout_ms=30_000)
            assert np.array_equal(got["label"], want["label"].numpy())
            np.testing.assert_allclose(got["logits"], want["logits"].numpy(), atol=1e-5)
        assert client.statistics("net")["model_stats"][0]["inference_stats"]["success"]["count"] >= 3
        with pytest.raises(tw.serve.ServerError, match="no model") as e:
            client.infer("other", {"x": x})
        assert e.value.status == 404
        with pytest.raises(tw.serve.ServerError, match="expected f32"):
            client.infer("net", {"x": np.zeros((1, 5), np.float32)})


def test_plain_requests_are_exact(served):
    url, model, _ = served

    def ask(rows):
        x = example(rows, 7)
        body = {"inputs": [{"name": "x", "shape": [rows, 6], "datatype": "FP32", "data": x.tolist()}]}

        def send():
            request = urllib.request.Request(f"{url}/v2/models/net/infer", json.dumps(body).encode())
            answer = json.load(urllib.request.urlopen(request, timeout=60))
            return answer["outputs"], answer["parameters"]["batch_size"]

        outputs = same_shape_answer(send, rows)
        assert np.array_equal(np.float32(outputs[0]["data"]).reshape(rows, 4), model(x)["logits"].numpy())

    ask(1)
    ask(5)
    row = urllib.request.Request(f"{url}/v1/models/net:predict", json.dumps({"instances": example(2).tolist()}).encode())
    assert len(json.load(urllib.request.urlopen(row, timeout=60))["predictions"]) == 2


def test_clients_that_close_early_do_not_end_the_server(served):
    url, _, _ = served
    host, port = url.removeprefix("http://").split(":")
    body = json.dumps({"inputs": [{"name": "x", "shape": [1, 6], "datatype": "FP32", "data": example().tolist()}]}).encode()
    message = f"POST /v2/models/net/infer HTTP/1.1\r\nhost: x\r\ncontent-length: {len(body)}\r\n\r\n".encode() + body
    for _ in range(50):
        with socket.create_connection((host, int(port)), timeout=60) as s:
            # The first answer finds the socket closed, and writing the second one fails.
            s.sendall(message * 20)
    with tw.serve.Client(url) as client:
        assert client.is_ready()


def test_a_new_version_under_load(served):
    url, _, repository = served
    is_done, failures = threading.Event(), []

    def ask():
        with tw.serve.Client(url) as client:
            while not is_done.is_set():
                try:
                    client.infer("net", {"x": example()})
                except Exception as e:
                    # A machine that is busy with other things cannot keep the latency target: a refusal loses nothing.
                    if getattr(e, "status", None) != 429:
                        failures.append(e)

    threads = [threading.Thread(target=ask) for _ in range(3)]
    for t in threads:
        t.start()
    with tw.serve.Client(url) as client:
        for version in (2, 3):
            export(repository / "net" / str(version))
            client.load("net")
            assert client.metadata("net")["versions"] == [str(version)]
    is_done.set()
    for t in threads:
        t.join()
    assert failures == []


def test_the_command_infers_and_measures(served):
    url, _, repository = served
    run = lambda *words: subprocess.run([sys.executable, "-m", "talweg", *words], capture_output=True, text=True, timeout=120)
    host = url.removeprefix("http://")
    shown = run("infer", str(repository / "net" / "1"))
    assert "f32[batch, 6]" in shown.stdout, shown.stderr
    here = run("infer", str(repository / "net" / "1"), "x=[[1,2,3,4,5,6]]")
    there = run("infer", "net", "x=[[1,2,3,4,5,6]]", "--server", host)
    assert here.returncode == 0 and there.stdout == here.stdout, there.stderr
    for mode in (["--clients", "4"], ["--rate", "50", "--clients", "64"]):
        report = json.loads(run("bench", "serve", "--server", host, "--model", "net", "--seconds", "1", *mode).stdout)
        assert report["answered"] > 0 and report["failed"] == 0
        assert 0 < report["p50_ms"] <= report["p99_ms"] <= report["max_ms"]
