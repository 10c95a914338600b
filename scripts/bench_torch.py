"""PyTorch (CPU) beside `talweg bench`: the same workloads and timing rule, one JSON line each.

BENCH_THREADS sets the number of threads (default 2). Needs `pip install torch`.
"""

import json
import os
import time

import torch
import torch.nn.functional as F

torch.set_num_threads(int(os.environ.get("BENCH_THREADS", "2")))


def measure(name, step):
    """Warm up for half a second, then nine repeats that each fill a quarter second."""
    for _ in range(3):
        step()
    start, calls = time.perf_counter(), 0
    while time.perf_counter() - start < 0.5:
        step()
        calls += 1
    n = max(1, int(0.25 * calls / (time.perf_counter() - start)))
    times = []
    for _ in range(9):
        start = time.perf_counter()
        for _ in range(n):
            step()
        times.append((time.perf_counter() - start) * 1e3 / n)
    times.sort()
    print(json.dumps({"workload": name, "peer": "torch", "ms": times[4], "ms_min": times[0]}), flush=True)


def mlp(name, sizes, batch, optimizer):
    torch.manual_seed(0)
    layers = []
    for i, (a, b) in enumerate(zip(sizes, sizes[1:])):
        layers.append(torch.nn.Linear(a, b))
        if i < len(sizes) - 2:
            layers.append(torch.nn.ReLU())
    model = torch.nn.Sequential(*layers)
    opt = optimizer(model.parameters())
    x, y = torch.rand(batch, sizes[0]), torch.randint(0, sizes[-1], (batch,))

    def step():
        opt.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        return loss.item()

    measure(name, step)


def matmul(name, m, k, n):
    a, b = torch.rand(m, k), torch.rand(k, n)
    measure(name, lambda: a @ b)


def fuse():
    x = torch.rand(4096, 1024, requires_grad=True)
    w, b, gain, shift = (torch.rand(1024, requires_grad=True) for _ in range(4))
    dy = torch.rand(4096, 1024)

    def forward():
        return F.softmax(F.layer_norm(F.gelu(x * w + b, approximate="tanh"), (1024,), gain, shift), -1)

    def inference():
        with torch.inference_mode():
            forward()

    measure("fuse_fwd", inference)
    measure("fuse_fwdbwd", lambda: torch.autograd.grad(forward(), [x, w, b, gain, shift], dy))


mlp("tiny_mlp", [4, 8, 2], 1, lambda p: torch.optim.SGD(p, lr=0.01))
mlp("mlp100_adagrad", [784, 100, 10], 128, lambda p: torch.optim.Adagrad(p, fused=True))
mlp("mlp100_adam", [784, 100, 10], 128, lambda p: torch.optim.Adam(p, fused=True))
mlp("mlp1024_adam", [784, 1024, 1024, 10], 128, lambda p: torch.optim.Adam(p, fused=True))
matmul("matmul_256", 256, 256, 256)
matmul("matmul_1024", 1024, 1024, 1024)
matmul("matmul_2048", 2048, 2048, 2048)
matmul("matmul_64x4096x4096", 64, 4096, 4096)
fuse()
