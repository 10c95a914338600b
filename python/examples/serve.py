"""Trains a classifier of Fashion-MNIST-sized images, exports it, serves it, calls it, watches it, upgrades it under load."""

import os
import subprocess
import sys
import tempfile
import threading

import talweg as tw
from talweg import nn

QUICK = bool(os.environ.get("TALWEG_QUICK"))
tw.manual_seed(0)

# Images: a pattern for each class with noise. `tw.data` reads the real files where they are.
patterns = tw.rand(10, 28 * 28)


def batch(n):
    y = tw.randint(0, 10, (n,))
    return patterns[y] + 0.5 * tw.randn(n, 28 * 28), y


net = nn.Sequential(nn.Linear(784, 128), nn.ReLU(), nn.Linear(128, 10))
optimizer = tw.optim.Adam(net.parameters(), lr=3e-3)


def train(steps):
    for _ in range(steps):
        x, y = batch(64)
        loss = nn.functional.cross_entropy(net(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def export(repository, version):
    # Pixels are bytes on the wire. Scaling them and naming the answer is part of the model.
    net.export(
        f"{repository}/fashion/{version}", tw.zeros(1, 28, 28, dtype=tw.uint8),
        preprocess=lambda image: image.float().flatten(1) / 255,
        postprocess=lambda logits: {"label": logits.argmax(-1), "probability": logits.softmax(-1)},
    )


with tempfile.TemporaryDirectory() as repository:
    print(f"loss {train(20 if QUICK else 200):.3f}")
    export(repository, 1)
    command = [sys.executable, "-m", "talweg", "serve", repository, "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    url = server.stdout.readline().split()[3].rstrip("/")
    print(f"serving at {url}; the page there shows models and latencies")

    images = (batch(4)[0].reshape(4, 28, 28).clamp(0, 1) * 255).to(tw.uint8)
    is_done, asked = threading.Event(), []

    def ask():
        with tw.serve.Client(url) as client:
            while not is_done.is_set():
                asked.append(client.infer("fashion", {"image": images})["label"])

    asking = threading.Thread(target=ask)
    asking.start()
    train(20 if QUICK else 200)
    export(repository, 2)
    with tw.serve.Client(url) as client:
        client.load("fashion")  # requests that hold version 1 are answered by version 1
        assert client.metadata("fashion")["versions"] == ["2"]
        is_done.set()
        asking.join()
        statistics = client.statistics("fashion")["model_stats"][0]
    assert asked and all(len(labels) == 4 for labels in asked)
    print(f"{len(asked)} requests answered during the upgrade, none failed; {statistics['execution_count']} batches of version 2")
    server.terminate()
    assert server.wait(60) == 0
