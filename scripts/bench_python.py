"""What a call from Python costs, beside PyTorch: `python scripts/bench_python.py [talweg|torch]`.

One thread. Each figure is the least of several rounds: what the work costs when nothing disturbs it.
"""

import sys
import time

CHAIN = 1000


def least(f, rounds=15):
    f()
    best = float("inf")
    for _ in range(rounds):
        start = time.perf_counter()
        f()
        best = min(best, time.perf_counter() - start)
    return best


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

    return chain, step, None


if __name__ == "__main__":
    which = sys.argv[1] if len(sys.argv) > 1 else "talweg"
    chain, eager, jitted = talweg() if which == "talweg" else pytorch()
    print(f"{which}: eager chain of {CHAIN} ops  {least(chain) * 1e6 / CHAIN:8.2f} us an op")
    print(f"{which}: eager MLP step             {least(lambda: [eager() for _ in range(50)]) / 50 * 1e6:8.1f} us")
    if jitted:
        print(f"{which}: jitted MLP step            {least(lambda: [jitted() for _ in range(50)]) / 50 * 1e6:8.1f} us")
