"""Writes the small files of python/tests/data with PyTorch: python scripts/torch_files.py python/tests/data"""

import sys
from collections import OrderedDict
from pathlib import Path

import torch

out = Path(sys.argv[1])
kinds = [torch.float64, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8]
kinds += [torch.bool, torch.complex64, torch.complex128, torch.uint16, torch.float8_e5m2]
base = torch.arange(6.0).reshape(2, 3)
tied = torch.nn.Parameter(torch.tensor([1.5, -2.5]))
state = OrderedDict(
    model=OrderedDict({"w": tied, "head": tied, "t": base.t(), "row": base[1], "e": torch.ones(1, 1).expand(2, 2)}),
    kinds={str(k).removeprefix("torch."): torch.tensor([0, 1, 3]).to(k) for k in kinds},
    optimizer={"state": {0: {"step": torch.tensor(3.0)}}, "param_groups": [{"lr": 0.1, "betas": (0.9, 0.999), "params": [0]}]},
    rest=[None, True, -(2**70), 2.5, "é", b"\x00\xff", {1}, 1j, torch.Size([2, 3]), torch.float16, torch.device("cpu")],
)
torch.save(state, out / "state.pt")
torch.save({"w": base, "row": base[1], "half": base.bfloat16(), "n": 3}, out / "old.pth", _use_new_zipfile_serialization=False)
torch.save(torch.nn.Linear(1, 1), out / "module.pt")
