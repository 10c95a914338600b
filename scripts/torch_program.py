"""Writes the programs of PyTorch that tests read without it: a ``.pt2`` file and what it returns. Needs PyTorch.

    python scripts/torch_program.py python/tests/data
"""

import io
import json
import sys
import zipfile
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F


class Net(nn.Module):
    """Layers of many kinds, with two inputs of any batch, a buffer and a dict among the results."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm = nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4)
        self.embed, self.lstm = nn.Embedding(7, 4), nn.LSTM(4, 4, batch_first=True)
        self.attention_in, self.layer_norm = nn.Linear(4, 12), nn.LayerNorm(4)
        self.out = nn.Linear(4, 3)
        self.register_buffer("shift", torch.tensor([0.5, 0.0, -0.5]))

    def forward(self, image, ids):
        x = F.max_pool2d(F.silu(self.norm(self.conv(image))), 2).flatten(2).transpose(1, 2)
        y, _ = self.lstm(self.embed(ids))
        x = torch.cat([x, y], 1)
        q, k, v = self.attention_in(self.layer_norm(x)).chunk(3, -1)
        x = x + F.scaled_dot_product_attention(q, k, v)
        logits = self.out(F.gelu(x).mean(1)) + self.shift
        return logits, {"best": logits.argmax(-1), "rows": x.shape[1] * image.shape[0] + x[:, 0, 0]}


def stripped(program):
    """The file without lines of this machine's programs and without pickled example inputs."""
    raw = io.BytesIO()
    torch.export.save(program, raw)
    source, made = zipfile.ZipFile(raw), io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_STORED) as out:
        for info in source.infolist():
            name, data = "net/" + info.filename.partition("/")[2], source.read(info)
            if name.endswith("models/model.json"):
                graph = json.loads(data)
                for node in graph["graph_module"]["graph"]["nodes"]:
                    node["metadata"] = {"stack_trace": 'File "net.py", line 1, in forward'}
                data = json.dumps(graph).encode()
            if "sample_inputs" not in name:
                out.writestr(zipfile.ZipInfo(name), data)
    return made.getvalue()


def main(folder):
    torch.manual_seed(0)
    net, batch = Net(), torch.export.Dim("batch")
    image, ids = torch.randn(2, 1, 6, 6), torch.randint(0, 7, (2, 3))
    shapes = ({0: batch}, {0: batch})
    program = torch.export.export(net, (image, ids), dynamic_shapes=shapes)
    Path(folder, "program.pt2").write_bytes(stripped(program))
    start = {k: v.clone() for k, v in net.state_dict().items()}
    cases = []
    for n, t in ((2, 3), (5, 3)):
        image, ids = torch.randn(n, 1, 6, 6), torch.randint(0, 7, (n, t))
        net.zero_grad()
        net.load_state_dict(start)
        logits, more = net(image, ids)
        logits.square().sum().backward()
        cases.append({
            "image": image.tolist(), "ids": ids.tolist(), "logits": logits.tolist(), "best": more["best"].tolist(),
            "rows": more["rows"].tolist(), "running_mean": net.norm.running_mean.tolist(),
            "gradients": {k: p.grad.flatten()[:8].tolist() for k, p in net.named_parameters()},
        })  # fmt: skip
    Path(folder, "program.json").write_text(json.dumps(cases))


if __name__ == "__main__":
    main(sys.argv[1])
