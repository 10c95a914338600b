"""Functions with a custom gradient: a straight-through estimator, and a gradient that is clipped."""

import talweg as tw

# Forward: round. Backward: as if nothing had happened (the straight-through estimator).
rounded = tw.custom_gradient(lambda x: x.round(), lambda inputs, outputs, gradients: gradients)

# Forward: nothing. Backward: no gradient longer than 1.
bounded = tw.custom_gradient(
    lambda x: x * 1.0, lambda inputs, outputs, gradients: [g / g.square().sum().sqrt().clamp(min=1.0) for g in gradients]
)

x = tw.tensor([0.4, 1.6], requires_grad=True)
(rounded(x) * tw.tensor([2.0, 3.0])).sum().backward()
print(rounded(x).tolist(), x.grad.tolist())
assert x.grad.tolist() == [2.0, 3.0]

slope = tw.grad(lambda x: (bounded(x) * 100).sum())(tw.zeros(4))
print(slope.tolist())
assert abs(slope.square().sum().item() - 1.0) < 1e-5

# They compose with everything else: jit, vmap and second gradients.
step = tw.jit(tw.grad(lambda x: rounded(x).square().sum()))
print(step(tw.tensor([0.4, 1.6])).tolist())
print(tw.vmap(rounded)(tw.tensor([[0.2], [0.9]])).tolist())
