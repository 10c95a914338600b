#!/usr/bin/env python3
"""How GEMM, an LSTM and a GPT scale with threads on a CPU, beside PyTorch. Needs both packages and no compiler.

    python scripts/bench_threads.py                      # 1, 2, 4, … threads up to all processors
    python scripts/bench_threads.py --threads 2,16 --only matmul_f32,lstm

Each library, workload and number of threads is a process of its own, because a pool keeps its threads. Libraries alternate
`--rounds` times and the least time of each counts. A ratio is PyTorch's time over Talweg's, so above 1 Talweg is faster.
"""
import argparse
import json
import os
import subprocess
import sys
import time


def least(call, wait, seconds=2.0):
    """Milliseconds of a call, the least of many."""
    for _ in range(3):
        wait(call())
    best, end = 1e9, time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        wait(call())
        best = min(best, time.perf_counter() - start)
    return best * 1e3


def gemm(library, dtype, size):
    a, b = (library.randn(size, size).to(getattr(library, dtype)) for _ in range(2))
    if library.__name__ == "torch":
        return lambda: a @ b
    product = library.jit(lambda a, b: a @ b)
    return lambda: product(a, b)


def step_of(library, model, loss):
    """A training step with Adam."""
    optimizer = library.optim.Adam(model.parameters(), lr=1e-3)

    def step():
        optimizer.zero_grad()
        y = loss()
        y.backward()
        optimizer.step()
        return y

    return step if library.__name__ == "torch" else library.jit(step)


def lstm(library):
    nn, F = library.nn, library.nn.functional

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn, self.last = nn.LSTM(128, 256, batch_first=True), nn.Linear(256, 10)

    model, x, y = Model(), library.randn(32, 64, 128), library.randint(0, 10, (32,))
    return step_of(library, model, lambda: F.cross_entropy(model.last(model.rnn(x)[0][:, -1]), y))


def gpt(library, is_autocast, width=384, heads=6, depth=2, length=128):
    nn, F = library.nn, library.nn.functional

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x):
            parts = self.qkv(self.norm1(x)).split(width, 2)
            q, k, v = (p.view(x.shape[0], length, heads, width // heads).transpose(1, 2) for p in parts)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2)
            x = x + self.out(y.reshape(x.shape[0], length, width))
            return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.tokens = nn.Embedding(1024, width)
            self.blocks = nn.ModuleList([Block() for _ in range(depth)])
            self.head = nn.Linear(width, 1024)

    model, ids = Model(), library.randint(0, 1024, (8, length + 1))

    def loss():
        with library.autocast("cpu", dtype=library.bfloat16, enabled=is_autocast):
            x = model.tokens(ids[:, :-1])
            for block in model.blocks:
                x = block(x)
            y = model.head(x)
        return F.cross_entropy(y.to(library.float32).reshape(-1, 1024), ids[:, 1:].reshape(-1))

    return step_of(library, model, loss)


WORKLOADS = {
    "matmul_f32": lambda library: gemm(library, "float32", 1024),
    "matmul_bf16": lambda library: gemm(library, "bfloat16", 1024),
    "matmul_2048": lambda library: gemm(library, "float32", 2048),
    "lstm": lstm,
    "gpt_f32": lambda library: gpt(library, False),
    "gpt_bf16": lambda library: gpt(library, True),
}


def one(who, workload, threads):
    """Measures in this process."""
    library = __import__(who)
    if who == "torch":
        library.set_num_threads(threads)
    call = WORKLOADS[workload](library)
    print(least(call, lambda y: y.flatten()[:1].tolist()))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", default="")
    parser.add_argument("--only", default="", help="workloads, with commas")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--one", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        return one(options.one[0], options.one[1], int(options.one[2]))
    processors = len(os.sched_getaffinity(0))
    counts = [int(n) for n in options.threads.split(",") if n] or [n for n in (1, 2, 4, 8, 16, 32, 64) if n <= processors]
    for workload in filter(None, options.only.split(",")) if options.only else WORKLOADS:
        for threads in counts:
            best = {}
            for who in ["talweg", "torch"] * options.rounds:
                env = os.environ | {"TALWEG_THREADS": str(threads), "OMP_NUM_THREADS": str(threads)}
                command = [sys.executable, __file__, "--one", who, workload, str(threads)]
                done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
                if done.returncode == 0:
                    best[who] = min(best.get(who, 1e9), float(done.stdout.split()[-1]))
                else:
                    best.setdefault("error", (done.stderr.strip().splitlines() or ["failed"])[-1])
            row = {"workload": workload, "threads": threads} | {f"{k}_ms" if k != "error" else k: v for k, v in best.items()}
            if "talweg" in best and "torch" in best:
                row["ratio"] = round(best["torch"] / best["talweg"], 2)
            print(json.dumps(row), flush=True)


if __name__ == "__main__":
    main()
