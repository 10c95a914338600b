"""First weights and data that are the same in every library: NumPy's numbers."""

import numpy as np


def seeded(torch, module, seed=0, scale=0.2):
    """Gives the parameters of a module values from NumPy's generator."""
    rng = np.random.RandomState(seed)
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(torch.from_numpy(rng.uniform(-scale, scale, tuple(p.shape)).astype(np.float32)))
    return module


def pictures(count, size=8, classes=4, seed=1):
    """Noisy pictures ``[count, 1, size, size]`` with a bright quarter, and which quarter it is."""
    rng = np.random.RandomState(seed)
    labels = rng.randint(0, classes, count)
    out = rng.uniform(0, 0.5, (count, 1, size, size)).astype(np.float32)
    half = size // 2
    for i, k in enumerate(labels):
        out[i, 0, (k // 2) * half : (k // 2 + 1) * half, (k % 2) * half : (k % 2 + 1) * half] += 0.5
    return out, labels.astype(np.int64)


def text(count=400, seed=2):
    """A string that a small language model can learn."""
    rng = np.random.RandomState(seed)
    words = ["the cat sat. ", "a dog ran. ", "the dog sat. ", "a cat ran. "]
    return "".join(words[i] for i in rng.randint(0, 4, count // 10))[:count]
