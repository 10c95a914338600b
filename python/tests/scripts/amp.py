"""Mixed precision: autocast around the forward pass, a scaler around the step, clipping after `unscale_`."""

import torch
import torch.nn as nn

from start import pictures, seeded

device = "cuda" if torch.cuda.is_available() else "cpu"
use_amp = torch.cuda.is_available()
x, y = pictures(64)
x, y = torch.from_numpy(x).to(device), torch.from_numpy(y).to(device)
model = seeded(torch, nn.Sequential(nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 4))).to(device)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
scaler = torch.amp.GradScaler(device, enabled=use_amp)
losses = []
for step in range(20):
    optimizer.zero_grad(set_to_none=True)
    with torch.autocast(device_type=device, dtype=torch.float16 if use_amp else torch.bfloat16):
        output = model(x)
        loss = criterion(output, y)
    assert output.dtype is (torch.float16 if use_amp else torch.bfloat16)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    losses.append(loss.item())
torch.save({"model": model.state_dict(), "scaler": scaler.state_dict()}, "amp.pt")
