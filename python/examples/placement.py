"""A network on two logical devices: its layers by constraint, then wherever the memory of each device has room.

python placement.py
TALWEG_LOGICAL_CPUS=2 TALWEG_LOGICAL_CPU_MEMORY=1MiB python placement.py

It prints where everything is computed, each value that is sent, and losses that are the same bit for bit.
"""

import contextlib
import os

import talweg as tw

STEPS = 2 if "TALWEG_QUICK" in os.environ else 10
WIDTH, LAYERS = 128, 8


def train(device_of=None):
    """Losses and the placement; ``device_of`` names the device of each layer."""
    tw.manual_seed(0)
    layers = [tw.nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(LAYERS)]
    weights = [layer.weight for layer in layers]
    optimizer = tw.optim.SGD(weights, lr=0.1, momentum=0.9)

    @tw.jit
    def step(x):
        for i, layer in enumerate(layers):
            with tw.device(device_of(i)) if device_of else contextlib.nullcontext():
                x = layer(x).tanh()
        with tw.colocate_with(x):
            loss = (x * x).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    x = tw.arange(16 * WIDTH).reshape(16, WIDTH).float() / (16 * WIDTH)
    losses = [float(step(x)) for _ in range(STEPS)]
    placed = step.explain(x).split("== compiled for")[1]
    lines = [line for line in placed.splitlines() if line.startswith(("placement", "cpu:", "part", "send"))]
    return losses, lines, weights


def main():
    if not tw.config.logical_devices():
        tw.config.set_logical_devices("cpu", 2, memory_limit=800_000)
    by_hand, lines, weights = train(lambda layer: "cpu:0" if layer < LAYERS // 2 else "cpu:1")
    print("By constraint:", *lines, sep="\n")
    print("the weights live on", [str(w.device) for w in weights])
    by_cost, _, weights = train()
    print("by cost they live on", [str(w.device) for w in weights])
    print("losses", by_hand)
    assert by_hand == by_cost, "where ops are computed changes no number"


if __name__ == "__main__":
    main()
