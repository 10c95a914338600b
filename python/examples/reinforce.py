"""REINFORCE (Williams 1992) balances a pole on a cart: the physics of CartPole (Barto, Sutton and Anderson 1983;
constants and limits of Gym's CartPole-v1) in NumPy, a two-layer policy, and the plain policy gradient with the batch
mean as baseline."""

import os

import numpy as np

import talweg as tw
from talweg import nn

CARTS, STEPS, DISCOUNT = 16, 500, 0.99
QUICK = "TALWEG_QUICK" in os.environ


def pushed(state, is_right):
    """All carts after 0.02 s of a push to the left or right."""
    gravity, cart, pole, half, dt = 9.8, 1.0, 0.1, 0.5, 0.02
    x, v, angle, turn = state.T
    sin, cos, mass = np.sin(angle), np.cos(angle), cart + pole
    pressed = (np.where(is_right, 10.0, -10.0) + pole * half * turn * turn * sin) / mass
    spin = (gravity * sin - cos * pressed) / (half * (4 / 3 - pole * cos * cos / mass))
    faster = pressed - pole * half * spin * cos / mass
    return np.stack([x + dt * v, v + dt * faster, angle + dt * turn, turn + dt * spin], 1).astype("float32")


def play(policy, rng, steps):
    """A batch of episodes side by side; rows behind an episode's end have weight 0."""
    state = rng.uniform(-0.05, 0.05, (CARTS, 4)).astype("float32")
    is_up, returns = np.ones(CARTS, bool), np.zeros(CARTS, int)
    states, actions, alive = [], [], []
    for _ in range(steps):
        logits = np.asarray(policy(tw.from_numpy(state)))
        is_right = rng.random(CARTS) < 1 / (1 + np.exp(logits[:, 0] - logits[:, 1]))
        states.append(state), actions.append(is_right), alive.append(is_up)
        returns += is_up
        state = np.where(is_up[:, None], pushed(state, is_right), state)
        is_up = is_up & (np.abs(state[:, 0]) <= 2.4) & (np.abs(state[:, 2]) <= np.radians(12))
    left = np.maximum(returns[None, :] - np.arange(steps)[:, None], 0)
    reward = (1 - DISCOUNT**left) / (1 - DISCOUNT)
    alive = np.stack(alive)
    n = alive.sum()
    mean = reward[alive].mean()
    weights = np.where(alive, (reward - mean) / (reward[alive].std() + 1e-6) / n, 0).astype("float32")
    return np.concatenate(states), np.concatenate(actions).astype("int64"), weights.ravel(), returns


tw.manual_seed(0)
rng = np.random.default_rng(0)
policy = nn.Sequential(nn.Linear(4, 64), nn.Tanh(), nn.Linear(64, 2))
optimizer = tw.optim.Adam(policy.parameters(), lr=1e-2)
look = tw.jit(lambda state: policy(state))


@tw.jit
def learn(states, actions, weights):
    """What went better than usual becomes more likely."""
    logs = policy(states).log_softmax(-1)
    loss = -((logs * actions.one_hot(2, "float32")).sum(-1) * weights).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


rounds, steps = (2, 40) if QUICK else (150, STEPS)
for i in range(rounds):
    states, actions, weights, returns = play(look, rng, steps)
    if i % 10 == 0 or i + 1 == rounds:
        print(f"{(i + 1) * CARTS:4} episodes  mean return {returns.mean():.1f}")
    learn(tw.tensor(states), tw.tensor(actions), tw.tensor(weights))
