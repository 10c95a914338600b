"""Writes the names and shapes that PyTorch's layers have in `state_dict`, for the test that ours have the same:

python scripts/torch_keys.py > python/tests/torch_keys.json        (needs PyTorch; the test does not)
"""

import json

from torch import nn

LAYERS = """
nn.Linear(3, 2)
nn.Linear(3, 2, bias=False)
nn.Bilinear(3, 4, 2)
nn.LinearCrossEntropyLoss(3, 4, out_features=(2,), bias=True)
nn.Embedding(5, 3)
nn.Conv1d(2, 4, 3)
nn.Conv2d(2, 4, 3, groups=2)
nn.Conv3d(2, 4, (1, 2, 3), bias=False)
nn.ConvTranspose1d(2, 4, 3)
nn.ConvTranspose2d(2, 4, 3, stride=2, output_padding=1)
nn.ConvTranspose3d(2, 4, 3, bias=False)
nn.LayerNorm((2, 3))
nn.LayerNorm(3, bias=False)
nn.RMSNorm(3)
nn.GroupNorm(2, 4)
nn.BatchNorm1d(3)
nn.BatchNorm2d(3)
nn.BatchNorm3d(3)
nn.RNN(3, 4)
nn.RNN(3, 4, num_layers=2, bias=False)
nn.LSTM(3, 4, num_layers=2, bidirectional=True)
nn.GRU(3, 4, batch_first=True)
nn.MultiheadAttention(8, 2)
nn.TransformerEncoderLayer(8, 2, 16)
nn.TransformerDecoderLayer(8, 2, 16)
nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2)
nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2, norm=nn.LayerNorm(8))
nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16), 2, norm=nn.LayerNorm(8))
nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 1)))
nn.ModuleList([nn.Linear(2, 3), nn.Linear(3, 2)])
nn.ModuleDict({"a": nn.Linear(2, 3), "b": nn.Conv1d(1, 1, 1)})
"""

if __name__ == "__main__":
    keys = {line: {n: list(t.shape) for n, t in eval(line).state_dict().items()} for line in LAYERS.split("\n") if line}
    print("{\n" + ",\n".join(f" {json.dumps(k)}: {json.dumps(v)}" for k, v in keys.items()) + "\n}")
