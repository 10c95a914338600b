"""Parameters after some of 50 steps of each optimizer on a small problem, as optimizers.txt.

    python optimizers.py > optimizers.txt

Run with PyTorch on the CPU, in f32. PyTorch has no Lion: that one follows the paper (Chen and
others 2023, algorithm 2) with PyTorch's tensors. Lines: `data NAME values...` for the inputs,
`NAME STEP values...` for the parameters (w, then b) after that many steps.
"""

import torch

x = torch.tensor([[0.5, -1.25], [1.5, 0.75], [-0.25, 2.0], [-1.0, -0.5]])
y = torch.tensor([[0.25, -0.5, 1.0], [1.25, 0.5, -0.75], [-1.5, 0.125, 0.5], [0.75, -1.0, 0.25]])
w0 = torch.tensor([[0.5, -0.25, 0.125], [-0.75, 0.375, 1.0]])
b0 = torch.tensor([0.1, -0.2, 0.3])


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, dict(lr=lr, betas=betas, weight_decay=weight_decay))

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            b1, b2 = group["betas"]
            for p in group["params"]:
                m = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                update = (b1 * m + (1 - b1) * p.grad).sign()
                p.sub_(group["lr"] * (update + group["weight_decay"] * p))
                m.copy_(b2 * m + (1 - b2) * p.grad)


o = torch.optim
CASES = {
    "sgd": lambda p: o.SGD(p, lr=0.1),
    "sgd_momentum": lambda p: o.SGD(p, lr=0.05, momentum=0.9),
    "sgd_nesterov": lambda p: o.SGD(p, lr=0.05, momentum=0.8, nesterov=True, weight_decay=0.01),
    "sgd_dampening": lambda p: o.SGD(p, lr=0.1, momentum=0.9, dampening=0.5, weight_decay=0.1),
    "adagrad": lambda p: o.Adagrad(p, lr=0.1),
    "adagrad_decay": lambda p: o.Adagrad(
        p, lr=0.1, lr_decay=0.05, weight_decay=0.1, initial_accumulator_value=0.5
    ),
    "adam": lambda p: o.Adam(p, lr=0.02),
    "adam_decay": lambda p: o.Adam(p, lr=0.02, betas=(0.8, 0.95), weight_decay=0.1),
    "adamw": lambda p: o.AdamW(p, lr=0.02, weight_decay=0.1),
    "rmsprop": lambda p: o.RMSprop(p),
    "rmsprop_momentum": lambda p: o.RMSprop(p, lr=0.005, alpha=0.9, momentum=0.5, weight_decay=0.1),
    "rmsprop_centered": lambda p: o.RMSprop(p, lr=0.005, momentum=0.5, centered=True),
    "adadelta": lambda p: o.Adadelta(p),
    "adadelta_decay": lambda p: o.Adadelta(p, lr=0.5, rho=0.8, weight_decay=0.1),
    "nadam": lambda p: o.NAdam(p, lr=0.02),
    "nadam_decay": lambda p: o.NAdam(p, lr=0.02, weight_decay=0.1, momentum_decay=0.1),
    "lion": lambda p: Lion(p, lr=0.01),
    "lion_decay": lambda p: Lion(p, lr=0.01, betas=(0.8, 0.95), weight_decay=0.5),
    "adafactor": lambda p: o.Adafactor(p),
    "lbfgs": lambda p: o.LBFGS(p, lr=0.1, max_iter=1, history_size=5),
    "lbfgs_many": lambda p: o.LBFGS(p, lr=0.05, max_iter=3),
    "lbfgs_wolfe": lambda p: o.LBFGS(
        p, lr=0.8, max_iter=2, max_eval=50, history_size=3, line_search_fn="strong_wolfe"
    ),
    "adafactor_decay": lambda p: o.Adafactor(p, lr=0.2, beta2_decay=-0.5, d=1.25, weight_decay=0.1),
}


def line(*head, values):
    print(*head, *(f"{v:.9g}" for v in values))


def run(make, dtype):
    """Parameters after the recorded steps."""
    xs, ys = x.to(dtype), y.to(dtype)
    w, b = w0.to(dtype).clone().requires_grad_(), b0.to(dtype).clone().requires_grad_()
    optimizer = make([w, b])
    out = {}
    for step in range(1, 51):

        def loss():
            optimizer.zero_grad()
            loss = (((xs @ w).tanh() + b - ys) ** 2).mean()
            loss.backward()
            return loss

        loss()
        optimizer.step(*[loss] if isinstance(optimizer, o.LBFGS) else [])
        if step in (1, 2, 3, 10, 25, 50):
            out[step] = w.flatten().tolist() + b.tolist()
    return out


for name, t in {"x": x, "y": y, "w": w0, "b": b0}.items():
    line("data", name, values=t.flatten().tolist())
for name, make in CASES.items():
    values, exact = run(make, torch.float32), run(make, torch.float64)
    # Large steps make rounding errors grow (Adadelta with lr=5: 7.5e-3 between f32 and f64); such a
    # case could not tell a wrong formula from another order of additions.
    off = max(abs(a - b) for s in values for a, b in zip(values[s], exact[s]))
    assert off < 1e-5, f"{name} is ill-conditioned: f32 and f64 differ by {off}"
    for step in values:
        line(name, step, values=values[step])
