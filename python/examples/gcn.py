"""A graph convolutional network (Kipf and Welling 2017) classifies nodes by their words and links, with 5 labeled nodes
per class. The graph is synthetic."""

import os

import numpy as np

import talweg as tw
from talweg import nn

GROUPS, SIZE, WORDS = 4, 50, 60
EPOCHS = 20 if "TALWEG_QUICK" in os.environ else 200


def draw(rng):
    """Nodes with words, both directions of each link, labels."""
    labels = np.repeat(np.arange(GROUPS), SIZE)
    n = len(labels)
    same = labels[:, None] == labels[None, :]
    linked = np.triu(rng.random((n, n)) < np.where(same, 0.08, 0.01), 1)
    a, b = np.nonzero(linked)
    likely = np.where(np.arange(WORDS)[None, :] % GROUPS == labels[:, None], 0.12, 0.06)
    words = (rng.random((n, WORDS)) < likely).astype("float32")
    edges = np.stack([np.concatenate([a, b]), np.concatenate([b, a])])
    return tw.tensor(words), tw.tensor(edges), tw.tensor(labels)


class Net(nn.Module):
    def __init__(self):
        self.first, self.second = nn.GCN(WORDS, 16), nn.GCN(16, GROUPS)
        self.dropout = nn.Dropout(0.5)

    def forward(self, nodes, edges):
        hidden = self.first(self.dropout(nodes), edges).relu()
        return self.second(self.dropout(hidden), edges)


tw.manual_seed(0)
nodes, edges, labels = draw(np.random.default_rng(0))
place = tw.arange(len(labels)) % SIZE
known = (place < 5).nonzero().squeeze(1)
test = (place >= 5).nonzero().squeeze(1)
model = Net()
# As in the paper, only the first layer decays.
groups = [{"params": model.first.parameters(), "weight_decay": 5e-4}, {"params": model.second.parameters(), "weight_decay": 0.0}]
optimizer = tw.optim.Adam(groups, lr=0.01)


@tw.jit
def step(nodes, edges):
    loss = nn.functional.cross_entropy(model(nodes, edges).index_select(0, known), labels.index_select(0, known))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


for epoch in range(1, EPOCHS + 1):
    loss = step(nodes, edges)
    if epoch % 50 == 0:
        print(f"epoch {epoch:3}  loss {loss.item():.4f}")
model.eval()
right = model(nodes, edges).argmax(1).index_select(0, test) == labels.index_select(0, test)
print(f"{100 * right.float().mean().item():.1f} % of the other nodes are in the right group")
