"""Cross-layer equalization: scales moved from one layer's outputs to the next one's inputs, which changes no result."""

# mypy: ignore-errors
import talweg as tw
from .. import nn

_PASSES = (nn.ReLU, nn.Identity, nn.Dropout)


def equalize(model):
    """Gives the weights of neighboring layers of a ``Sequential`` (linear, or convolutions, with ReLU between) the same
    range for each channel, in place; the number of pairs. Quantization per tensor then loses less.
    """
    pairs = 0
    for module in model.modules():
        if isinstance(module, nn.Sequential):
            layers = [m for m in module if not isinstance(m, _PASSES)]
            for a, b in zip(layers, layers[1:]):
                if type(a) is type(b) and isinstance(a, (nn.Linear, nn.Conv2d)) and getattr(b, "groups", 1) == 1:
                    _equalized(a, b)
                    pairs += 1
    return pairs


def _equalized(a, b):
    rest = tuple(range(1, a.weight.ndim))
    out = a.weight.detach().abs().amax(rest)
    into = b.weight.detach().abs().amax((0, *range(2, b.weight.ndim)))
    scale = tw.where((out > 0) & (into > 0), (out / into.clamp(min=1e-12)).sqrt(), 1.0).clamp(1e-4, 1e4)
    with tw.no_grad():
        a.weight.copy_(a.weight / scale.reshape((-1,) + (1,) * len(rest)))
        if a.bias is not None:
            a.bias.copy_(a.bias / scale)
        b.weight.copy_(b.weight * scale.reshape((1, -1) + (1,) * (b.weight.ndim - 2)))
