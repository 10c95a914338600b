"""Ten lines that train something: a line through points."""

import talweg as tw

x = tw.linspace(-1, 1, 64).reshape(64, 1)
y = 3 * x + 0.5
model = tw.nn.Linear(1, 1)
optimizer = tw.optim.Adam(model.parameters(), lr=0.1)
for step in range(200):
    loss = (model(x) - y).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(model.weight.item(), model.bias.item(), loss.item())
assert loss.item() < 1e-3
