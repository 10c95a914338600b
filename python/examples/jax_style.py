"""Function transforms: jit(grad(f)) trains a small network whose parameters are a dictionary."""

import talweg as tw


def predict(params, x):
    return (x @ params["w1"] + params["b1"]).tanh() @ params["w2"]


def loss(params, x, y):
    return (predict(params, x) - y).square().mean()


@tw.jit
def step(params, x, y):
    value, grads = tw.value_and_grad(loss)(params, x, y)
    return value, {name: p - 0.1 * grads[name] for name, p in params.items()}


tw.manual_seed(0)
params = {"w1": tw.randn(1, 16), "b1": tw.zeros(16), "w2": tw.randn(16, 1) * 0.1}
x = tw.linspace(-2, 2, 128).reshape(128, 1)
y = x.sin()
for i in range(500):
    value, params = step(params, x, y)
print(f"loss {value.item():.5f}, traced {step.traces} time")
assert value.item() < 0.05 and step.traces == 1

# A gradient for each example, without a loop.
per_example = tw.vmap(tw.grad(lambda p, x, y: loss(p, x, y)), in_axes=(None, 0, 0))(params, x, y)
print(per_example["w1"].shape)
