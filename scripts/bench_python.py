"""What a call from Python costs, beside PyTorch eager in the same process: `python scripts/bench_python.py`.

One thread. The two take turns; each figure is the least of many rounds: what the work costs when nothing disturbs it.
"""

import os
import time

CHAIN, STEPS, ROUNDS = 1000, 50, 40
os.environ.setdefault("TALWEG_THREADS", "1")


def least(*functions):
    """The least time of each, in microseconds."""
    best = [float("inf")] * len(functions)
    for _ in range(ROUNDS):
        for i, f in enumerate(functions):
            start = time.perf_counter()
            f()
            best[i] = min(best[i], time.perf_counter() - start)
    return [x * 1e6 for x in best]


def talweg():
    import talweg as tw

    x, y = tw.ones(8), tw.full((8,), 1e-3)

    def chain():
        z = x
        for _ in range(CHAIN // 2):
            z = z + y
            z = z.tanh()
        return z.eval()

    tw.manual_seed(0)
    model = tw.nn.Sequential(tw.nn.Linear(4, 8), tw.nn.ReLU(), tw.nn.Linear(8, 2))
    optimizer = tw.optim.SGD(model.parameters(), lr=0.1)
    a, t = tw.randn(16, 4), tw.randint(0, 2, (16,))

    def step(a, t):
        optimizer.zero_grad()
        loss = model(a).cross_entropy(t)
        loss.backward()
        optimizer.step()
        return loss

    jitted = tw.jit(step)
    return chain, lambda: step(a, t).item(), lambda: jitted(a, t).item()


def pytorch():
    import torch

    torch.set_num_threads(1)
    x, y = torch.ones(8), torch.full((8,), 1e-3)

    def chain():
        z = x
        for _ in range(CHAIN // 2):
            z = z + y
            z = z.tanh()
        return z

    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    a, t = torch.randn(16, 4), torch.randint(0, 2, (16,))

    def step():
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(a), t)
        loss.backward()
        optimizer.step()
        return loss.item()

    return chain, step


def main():
    chain, eager, jitted = talweg()
    torch_chain, torch_step = pytorch()
    several = [lambda f=f: [f() for _ in range(STEPS)] for f in (eager, jitted, torch_step)]
    for f in several:
        f()  # everything compiled and allocated
    ours, theirs = least(chain, torch_chain)
    ours_eager, ours_jitted, theirs_step = (x / STEPS for x in least(*several))
    print(f"{'':44} {'PyTorch':>9} {'Talweg':>9} {'ratio':>7}")
    for name, a, b in [
        (f"chain of {CHAIN} elementwise ops on 8 numbers, us", theirs, ours),
        ("4-8-2 MLP training step, us", theirs_step, ours_eager),
        ("the same, jitted, us", theirs_step, ours_jitted),
    ]:
        print(f"{name:44} {a:9.1f} {b:9.1f} {a / b:7.2f}")


if __name__ == "__main__":
    main()
