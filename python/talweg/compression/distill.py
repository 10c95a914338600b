"""Learning from a larger model."""

# mypy: ignore-errors
import talweg as tw
from ..nn import functional as F


def distillation_loss(student, teacher, target=None, *, temperature=4.0, alpha=0.5):
    """alpha T² KL(teacher ‖ student) at temperature T, plus (1 - alpha) times the cross entropy with the target.

    >>> z = tw.tensor([[1.0, 2.0]])
    >>> round(tw.compression.distillation_loss(z, z, alpha=1.0).item(), 6)
    0.0
    """
    teacher = teacher.detach()
    soft = tw.softmax(teacher / temperature, -1)
    apart = tw.log_softmax(teacher / temperature, -1) - tw.log_softmax(student / temperature, -1)
    loss = (soft * apart).sum(-1).mean() * (temperature**2)
    if target is None:
        return loss
    return alpha * loss + (1 - alpha) * F.cross_entropy(student, target)
