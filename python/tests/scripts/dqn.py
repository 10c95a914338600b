"""Q-learning with a replay memory and a target network."""

import random
from collections import deque, namedtuple

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim

from start import seeded

Transition = namedtuple("Transition", ("state", "action", "next_state", "reward"))


class ReplayMemory(object):
    def __init__(self, capacity):
        self.memory = deque([], maxlen=capacity)

    def push(self, *args):
        self.memory.append(Transition(*args))

    def sample(self, batch_size):
        return random.sample(self.memory, batch_size)

    def __len__(self):
        return len(self.memory)


class DQN(nn.Module):
    def __init__(self, n_observations, n_actions):
        super(DQN, self).__init__()
        self.layer1 = nn.Linear(n_observations, 16)
        self.layer2 = nn.Linear(16, n_actions)

    def forward(self, x):
        return self.layer2(F.relu(self.layer1(x)))


class Corridor:
    """Five cells; the last one pays."""

    def reset(self):
        self.at = 0
        return self.seen()

    def seen(self):
        return [1.0 if i == self.at else 0.0 for i in range(5)]

    def step(self, action):
        self.at = max(0, self.at + (1 if action == 1 else -1))
        done = self.at == 4
        return self.seen(), 1.0 if done else -0.01, done


random.seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
BATCH_SIZE, GAMMA, TAU = 16, 0.9, 0.1
policy_net = seeded(torch, DQN(5, 2)).to(device)
target_net = DQN(5, 2).to(device)
target_net.load_state_dict(policy_net.state_dict())
optimizer = optim.AdamW(policy_net.parameters(), lr=1e-2, amsgrad=True)
memory = ReplayMemory(200)
losses = []


def select_action(state, eps=0.5):
    if random.random() > eps:
        with torch.no_grad():
            return policy_net(state).max(1).indices.view(1, 1)
    return torch.tensor([[random.randrange(2)]], device=device, dtype=torch.long)


def optimize_model():
    if len(memory) < BATCH_SIZE:
        return
    batch = Transition(*zip(*memory.sample(BATCH_SIZE)))
    non_final_mask = torch.tensor(tuple(map(lambda s: s is not None, batch.next_state)), device=device, dtype=torch.bool)
    non_final_next_states = torch.cat([s for s in batch.next_state if s is not None])
    state_batch, action_batch, reward_batch = torch.cat(batch.state), torch.cat(batch.action), torch.cat(batch.reward)
    state_action_values = policy_net(state_batch).gather(1, action_batch)
    next_state_values = torch.zeros(BATCH_SIZE, device=device)
    with torch.no_grad():
        next_state_values[non_final_mask] = target_net(non_final_next_states).max(1).values
    expected = (next_state_values * GAMMA) + reward_batch
    loss = nn.SmoothL1Loss()(state_action_values, expected.unsqueeze(1))
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_value_(policy_net.parameters(), 100)
    optimizer.step()
    losses.append(loss.item())


env = Corridor()
for episode in range(6):
    state = torch.tensor(env.reset(), dtype=torch.float32, device=device).unsqueeze(0)
    for t in range(12):
        action = select_action(state)
        observation, reward, terminated = env.step(action.item())
        reward = torch.tensor([reward], device=device)
        next_state = None if terminated else torch.tensor(observation, dtype=torch.float32, device=device).unsqueeze(0)
        memory.push(state, action, next_state, reward)
        state = next_state
        optimize_model()
        target_dict, policy_dict = target_net.state_dict(), policy_net.state_dict()
        for key in policy_dict:
            target_dict[key] = policy_dict[key] * TAU + target_dict[key] * (1 - TAU)
        target_net.load_state_dict(target_dict)
        if terminated:
            break
