"""A generative adversarial network (Goodfellow and others 2014) on the usual test: eight Gaussians on a circle. A
generator that has not learned covers only some of them, or draws points between them."""

import math
import os

import talweg as tw
from talweg import nn

CLOUDS, SPREAD, NOISE, BATCH = 8, 0.05, 8, 256
STEPS = 20 if "TALWEG_QUICK" in os.environ else 6000
ANGLE = tw.arange(CLOUDS).float() * (2 * math.pi / CLOUDS)
MIDDLES = tw.stack([ANGLE.cos(), ANGLE.sin()], 1)


def real(n):
    return MIDDLES.take(tw.randint(0, CLOUDS, (n,)), 0) + tw.randn(n, 2) * SPREAD


def network(inputs, outputs, activation):
    return nn.Sequential(
        nn.Linear(inputs, 128), activation, nn.Linear(128, 128), activation, nn.Linear(128, outputs)
    )


def unlikely(scores, is_real):
    """Mean of -log p that the judge's scores give to "real", or to "drawn"."""
    return -nn.functional.logsigmoid(scores if is_real else -scores).mean()


tw.manual_seed(0)
generator, judge = network(NOISE, 2, nn.ReLU()), network(2, 1, nn.LeakyReLU(0.2))
of_generator = tw.optim.Adam(generator.parameters(), lr=5e-4, betas=(0.5, 0.999))
of_judge = tw.optim.Adam(judge.parameters(), lr=1e-3, betas=(0.5, 0.999))


@tw.jit
def step():
    """One step of each; each loss moves the parameters of its own network alone."""
    drawn = generator(tw.randn(BATCH, NOISE))
    found_out = unlikely(judge(real(BATCH)), True) + unlikely(judge(drawn.detach()), False)
    of_judge.minimize(found_out).apply()
    fooled = unlikely(judge(drawn), True)
    of_generator.minimize(fooled).apply()
    return found_out, fooled


def quality(n=10_000):
    """The portion of drawn points that lie in a cloud, and how many clouds hold at least 1 % of them."""
    with tw.no_grad():
        distance = (generator(tw.randn(n, NOISE)).unsqueeze(1) - MIDDLES).square().sum(-1).sqrt()
    hit = (distance.amin(-1) <= 3 * SPREAD).float()
    counts = (distance.argmin(1).one_hot(CLOUDS, "float32") * hit.unsqueeze(-1)).sum(0)
    return hit.mean().item(), int((counts >= n / 100).sum())


for i in range(STEPS):
    found_out, fooled = step()
    if i % max(STEPS // 6, 1) == 0 or i + 1 == STEPS:
        hits, clouds = quality()
        print(f"step {i:5}  judge {found_out:.3f}  generator {fooled:.3f}  {clouds} clouds, {100 * hits:.1f} % hits")
