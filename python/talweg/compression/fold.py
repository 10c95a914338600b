"""Batch normalization folded into the convolution before it."""

# mypy: ignore-errors
import numpy as np

import talweg as tw
from .. import nn

_CONVS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


def _pairs(model, batch):
    """Each convolution with the normalization that took its output, while the model ran on a batch."""
    last, pairs, hooks = {}, {}, []

    def after(module, _, output):
        last[id(output)] = (module, output)

    def before(module, args):
        conv, output = last.get(id(args[0]), (None, None))
        if output is args[0]:
            pairs.setdefault(conv, []).append(module)

    for module in model.modules():
        if type(module) in _CONVS:
            hooks.append(module.register_forward_hook(after))
        elif type(module) in _NORMS and module.running_mean is not None:
            hooks.append(module.register_forward_pre_hook(before))
    with tw.no_grad():
        y = model(*batch)
    for hook in hooks:
        hook.remove()
    uses = {}
    for norms in pairs.values():
        for norm in norms:
            uses[norm] = uses.get(norm, 0) + 1
    return [(conv, norms[0]) for conv, norms in pairs.items() if len(norms) == 1 and uses[norms[0]] == 1], y


def _folded(conv, norm):
    factor = (norm.running_var + norm.eps).rsqrt()
    factor = factor if norm.weight is None else factor * norm.weight.detach()
    shift = -norm.running_mean * factor
    shift = shift if norm.bias is None else shift + norm.bias.detach()
    old = 0 if conv.bias is None else conv.bias.detach() * factor
    conv.weight = nn.Parameter(conv.weight.detach() * factor.reshape((-1,) + (1,) * (conv.weight.ndim - 1)))
    conv.bias = nn.Parameter(old + shift)


def fold_batch_norms(model, batch):
    """Folds each batch normalization of a model in evaluation mode into the convolution whose output it takes, in place;
    the number of pairs. Which belong together is seen while the model runs on ``batch``, a tuple of inputs; if the
    outputs differ afterwards (a convolution has other readers), nothing is changed.

    >>> net = tw.nn.Sequential(tw.nn.Conv2d(1, 2, 3), tw.nn.BatchNorm2d(2)).eval()
    >>> tw.compression.fold_batch_norms(net, (tw.ones(1, 1, 4, 4),)), net[1]
    (1, Identity())
    """
    pairs, before = _pairs(model, batch)
    kept = [(conv, conv.weight, conv.bias) for conv, _ in pairs]
    places = {m: (parent, name) for parent in model.modules() for name, m in parent._modules.items()}
    for conv, norm in pairs:
        _folded(conv, norm)
        parent, name = places[norm]
        setattr(parent, name, nn.Identity())
    with tw.no_grad():
        after = model(*batch)
    first = [y if isinstance(y, tw.Tensor) else next(iter(y)) for y in (before, after)]
    a, b = (y.detach().numpy() for y in first)
    if np.allclose(a, b, rtol=1e-2, atol=1e-3 * max(float(np.abs(a).max(initial=0.0)), 1e-6)):
        return len(pairs)
    for conv, weight, bias in kept:
        conv.weight, conv.bias = weight, bias
    for _, norm in pairs:
        parent, name = places[norm]
        setattr(parent, name, norm)
    return 0
