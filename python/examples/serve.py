"""Trains a classifier of Fashion-MNIST (the built-in digits without it), exports it, serves it, calls it with `tw.serve.Client`,
curl and tritonclient (where they are installed), watches it, and upgrades it under load."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading

import talweg as tw
from talweg import nn
from talweg.utils.data import DataLoader, digits, fashion_mnist

QUICK = bool(os.environ.get("TALWEG_QUICK"))
tw.manual_seed(0)


def pictures(count, train):
    """Pictures ``[N, 28, 28]`` as bytes, and their classes."""
    try:
        if QUICK:
            raise FileNotFoundError
        images, labels = fashion_mnist(train)
        return images[:count], labels[:count]
    except (OSError, tw.Error):
        return digits(count, seed=0 if train else 1)


images, labels = pictures(512 if QUICK else 60_000, train=True)
unseen, answers = pictures(128 if QUICK else 2_000, train=False)
net = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = tw.optim.Adam(net.parameters(), lr=1e-3)
batches = DataLoader((images, labels), batch_size=64, shuffle=True, drop_last=True)


def scale(image):
    return image.float().flatten(1) / 255


def train():
    trainer = tw.train.Trainer(net, optimizer, batches, epochs=1, jit=True)
    print(trainer.fit(lambda x, y: nn.functional.cross_entropy(net(scale(x)), y)))


def export(repository, version):
    # Pixels are bytes on the wire. Scaling them and naming the answer is part of the model.
    net.export(
        f"{repository}/fashion/{version}", tw.zeros(1, 28, 28, dtype=tw.uint8), preprocess=scale,
        postprocess=lambda logits: {"label": logits.argmax(-1), "probability": logits.softmax(-1)},
    )


def accuracy(client):
    """Per cent of the unseen pictures, 100 in a request."""
    right = 0
    for i in range(0, len(unseen), 100):
        right += int((client.infer("fashion", {"image": unseen[i : i + 100]})["label"] == answers[i : i + 100].numpy()).sum())
    return 100 * right / len(unseen)


def call_with_others(url):
    """The label of the first picture, from curl and from tritonclient."""
    labels = {}
    if shutil.which("curl"):
        body = {"inputs": [{"name": "image", "shape": [1, 28, 28], "datatype": "UINT8", "data": unseen[:1].tolist()}]}
        command = ["curl", "-sS", f"{url}/v2/models/fashion/infer", "-d", "@-"]
        told = subprocess.run(command, input=json.dumps(body), capture_output=True, text=True, check=True).stdout
        labels["curl"] = {o["name"]: o["data"] for o in json.loads(told)["outputs"]}["label"][0]
    if importlib.util.find_spec("tritonclient") and importlib.util.find_spec("gevent"):
        import tritonclient.http as triton

        x = triton.InferInput("image", [1, 28, 28], "UINT8")
        x.set_data_from_numpy(unseen[:1].numpy())
        with triton.InferenceServerClient(url.removeprefix("http://")) as client:
            labels["tritonclient"] = int(client.infer("fashion", [x]).as_numpy("label")[0])
    return labels


with tempfile.TemporaryDirectory() as repository:
    train()
    export(repository, 1)
    command = [sys.executable, "-m", "talweg", "serve", repository, "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    url = server.stdout.readline().split()[3].rstrip("/")
    print(f"serving at {url}; the page there shows models and latencies")

    with tw.serve.Client(url) as client:
        label = int(client.infer("fashion", {"image": unseen[:1]})["label"][0])
        others = call_with_others(url)
        assert all(other == label for other in others.values()), (label, others)
        print(f"version 1: {accuracy(client):.1f} % of unseen pictures; the same answer from {', '.join(others) or 'this client'}")

    is_done, asked = threading.Event(), []

    def ask():
        with tw.serve.Client(url) as client:
            while not is_done.is_set():
                asked.append(client.infer("fashion", {"image": unseen[:4]})["label"])

    asking = threading.Thread(target=ask)
    asking.start()
    train()  # a second epoch, while clients ask
    export(repository, 2)
    with tw.serve.Client(url) as client:
        client.load("fashion")  # requests that hold version 1 are answered by version 1
        assert client.metadata("fashion")["versions"] == ["2"]
        is_done.set()
        asking.join()
        assert asked and all(len(labels) == 4 for labels in asked)
        print(f"version 2: {accuracy(client):.1f} %; {len(asked)} requests answered during the upgrade, none failed")
        batches = client.statistics("fashion")["model_stats"][0]["execution_count"]
        print(f"{batches} batches of version 2 so far; /metrics has more")
    server.terminate()
    assert server.wait(60) == 0
