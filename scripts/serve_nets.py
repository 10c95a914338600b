"""Nets for `bench_serve.py` and `serve_gpu.py`, written once for `talweg.nn` and `torch.nn`: pass either as `nn`.

`python scripts/serve_nets.py DIRECTORY` exports them with Talweg as a model repository and, where PyTorch is
installed, the same weights as ONNX files (`NAME.onnx`) for peers.
"""

import pathlib
import sys


def mlp(nn, widths):
    layers = []
    for a, b in zip(widths, widths[1:]):
        layers += [nn.Linear(a, b), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def resnet(nn, counts, is_bottleneck, classes=1000):
    """ResNet-18 is `[2, 2, 2, 2]`, ResNet-50 `[3, 4, 6, 3]` with bottlenecks."""
    growth = 4 if is_bottleneck else 1

    class Block(nn.Module):
        def __init__(self, a, width, stride):
            super().__init__()
            b = width * growth
            plan = [(a, width, 1, 1), (width, width, 3, stride), (width, b, 1, 1)] if is_bottleneck else [
                (a, width, 3, stride), (width, b, 3, 1)]
            layers = []
            for i, o, kernel, step in plan:
                layers += [nn.Conv2d(i, o, kernel, step, kernel // 2, bias=False), nn.BatchNorm2d(o), nn.ReLU()]
            self.body = nn.Sequential(*layers[:-1])
            is_same = stride == 1 and a == b
            self.short = nn.Identity() if is_same else nn.Sequential(nn.Conv2d(a, b, 1, stride, bias=False), nn.BatchNorm2d(b))

        def forward(self, x):
            return (self.body(x) + self.short(x)).relu()

    layers = [nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
    channels = 64
    for i, count in enumerate(counts):
        for j in range(count):
            layers.append(Block(channels, 64 << i, 2 if i > 0 and j == 0 else 1))
            channels = (64 << i) * growth
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


def minilm(nn, layers=6, width=384, heads=12, vocabulary=30522):
    """The encoder of all-MiniLM-L6: BERT with 6 layers of 384, mean pooling, vectors of length 1."""
    attention = nn.functional.scaled_dot_product_attention

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
            self.norm1, self.norm2 = nn.LayerNorm(width, eps=1e-12), nn.LayerNorm(width, eps=1e-12)

        def forward(self, x, bias):
            n, length, _ = x.shape
            split = lambda t: t.reshape(n, length, heads, width // heads).transpose(1, 2)
            y = attention(split(self.query(x)), split(self.key(x)), split(self.value(x)), attn_mask=bias)
            x = self.norm1(x + self.out(y.transpose(1, 2).reshape(n, length, width)))
            return self.norm2(x + self.down(nn.functional.gelu(self.up(x))))

    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.words, self.places = nn.Embedding(vocabulary, width), nn.Embedding(512, width)
            self.norm = nn.LayerNorm(width, eps=1e-12)
            self.layers = nn.ModuleList([Layer() for _ in range(layers)])

        def forward(self, ids, mask):
            weight = mask.to(self.norm.weight.dtype)
            places = (mask * 0 + 1).cumsum(1) - 1
            x = self.norm(self.words(ids) + self.places(places))
            bias = ((1 - weight) * -1e4).unsqueeze(1).unsqueeze(1)
            for layer in self.layers:
                x = layer(x, bias)
            y = (x * weight.unsqueeze(-1)).sum(1) / weight.sum(1, keepdim=True).clamp(1e-9)
            return y / (y * y).sum(-1, keepdim=True).sqrt().clamp(1e-9)

    return Encoder()


def ocr(nn, classes=97):
    """A text recognizer: convolutions over a line of 32 pixels, a bidirectional LSTM, scores for CTC (CRNN)."""

    class Recognizer(nn.Module):
        def __init__(self):
            super().__init__()
            layers = []
            for a, b, pool in [(1, 32, (2, 2)), (32, 64, (2, 2)), (64, 128, (2, 1)), (128, 256, (2, 1)), (256, 256, (2, 1))]:
                layers += [nn.Conv2d(a, b, 3, 1, 1, bias=False), nn.BatchNorm2d(b), nn.ReLU(), nn.MaxPool2d(pool)]
            self.convolutions = nn.Sequential(*layers)
            self.lstm = nn.LSTM(256, 128, batch_first=True, bidirectional=True)
            self.out = nn.Linear(256, classes)

        def forward(self, image):
            x = self.convolutions(image).squeeze(2).transpose(1, 2)
            return self.out(self.lstm(x)[0]).log_softmax(-1)

    return Recognizer()


SMALL, WIDE = [64, 128, 16], [1024, 1024, 1024, 1024]
LENGTH = 32
# Name: how it is made, names and shapes of its inputs after the batch axis, and whether they are token ids.
NETS = {
    "small": (lambda nn: mlp(nn, SMALL), {"input": [64]}, False),
    "wide": (lambda nn: mlp(nn, WIDE), {"input": [1024]}, False),
    "resnet18": (lambda nn: resnet(nn, [2, 2, 2, 2], False), {"input": [3, 224, 224]}, False),
    "minilm": (lambda nn: minilm(nn), {"ids": [LENGTH], "mask": [LENGTH]}, True),
    "ocr": (lambda nn: ocr(nn), {"image": [1, 32, 128]}, False),
}


def examples(name, make, rows=2):
    """Inputs as NumPy arrays: random numbers, or tokens under a mask of ones."""
    import numpy as np

    _, inputs, is_text = NETS[name]
    random = np.random.default_rng(1)
    if is_text:
        return [make(random.integers(0, 1000, (rows, LENGTH))), make(np.ones((rows, LENGTH), np.int64))]
    return [make(random.standard_normal((rows, *shape)).astype(np.float32)) for shape in inputs.values()]


def write(folder, names=tuple(NETS)):
    """Exports the nets, with PyTorch's weights if it is there; returns the names that have an ONNX file."""
    import talweg as tw

    try:
        import torch
    except ImportError:
        torch = None
    folder, peers = pathlib.Path(folder), []
    folder.mkdir(parents=True, exist_ok=True)
    tw.manual_seed(0)
    for name in names:
        make, inputs, _ = NETS[name]
        net = make(tw.nn).eval()
        if torch is not None:
            torch.manual_seed(0)
            other = make(torch.nn).eval()
            net.load_state_dict({k: tw.tensor(v.numpy()) for k, v in other.state_dict().items()})
            path = str(folder / f"{name}.onnx")
            given = tuple(examples(name, torch.from_numpy))
            axes = {n: {0: "batch"} for n in [*inputs, "output"]}
            torch.onnx.export(other, given, path, input_names=list(inputs), output_names=["output"], dynamic_axes=axes,
                              opset_version=17, dynamo=False)
            with torch.no_grad():
                want, got = other(*given).numpy(), net(*examples(name, tw.tensor)).numpy()
            assert abs(want - got).max() <= 1e-3 * max(1, abs(want).max()), f"{name}: {abs(want - got).max()}"
            peers.append(name)
        shapes = {n: {0: "batch"} for n in inputs}
        tw.export(net, folder / "models" / name / "1", tuple(examples(name, tw.tensor)), dynamic_shapes=shapes,
                  input_names=list(inputs), output_names=["output"], name=name)
    return peers


if __name__ == "__main__":
    print(write(sys.argv[1]))
