"""Learning rates of PyTorch's schedulers at each step, as schedules.txt.

    python schedules.py > schedules.txt

Lines: `NAME values...`; `figures` are what the plateau schedulers were shown.
"""

import warnings

import torch

warnings.filterwarnings("ignore")
s = torch.optim.lr_scheduler
FIGURES = [1.0, 0.8, 0.8, 0.79999, 0.9, 0.7, 0.71, 0.72, 0.73, 0.74, 0.75, 0.76, 0.77, 0.78, 0.79, 0.8, 0.81, 0.82]


def sgd():
    return torch.optim.SGD([torch.zeros(1)], lr=0.1)


def rates(make, steps):
    optimizer = sgd()
    scheduler = make(optimizer)
    out = []
    for _ in range(steps):
        out.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        scheduler.step()
    return out


def plateau(figures, **options):
    optimizer = sgd()
    scheduler = s.ReduceLROnPlateau(optimizer, **options)
    out = []
    for f in figures:
        scheduler.step(f)
        out.append(optimizer.param_groups[0]["lr"])
    return out


LINES = {
    "step": rates(lambda o: s.StepLR(o, step_size=3, gamma=0.5), 12),
    "exponential": rates(lambda o: s.ExponentialLR(o, gamma=0.9), 12),
    # One step more than T_max would begin to rise again.
    "cosine": rates(lambda o: s.CosineAnnealingLR(o, T_max=10, eta_min=0.01), 11),
    "one_cycle": rates(lambda o: s.OneCycleLR(o, max_lr=0.1, total_steps=20), 20),
    "one_cycle_other": rates(
        lambda o: s.OneCycleLR(o, max_lr=0.2, total_steps=15, pct_start=0.5, div_factor=10, final_div_factor=100), 15
    ),
    "warmup": rates(
        lambda o: s.SequentialLR(
            o, [s.LinearLR(o, start_factor=0.2, total_iters=5), s.ExponentialLR(o, gamma=0.9)], milestones=[5]
        ),
        12,
    ),
    "figures": FIGURES,
    "plateau": plateau(FIGURES, factor=0.5, patience=2, cooldown=1, min_lr=0.02),
    "plateau_max": plateau(FIGURES, mode="max", factor=0.1, patience=3),
}
for name, values in LINES.items():
    print(name, *(repr(float(v)) for v in values))
