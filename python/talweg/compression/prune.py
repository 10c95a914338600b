"""Pruning: weights that stay zero, or channels that are gone."""

# mypy: ignore-errors
import copy

import numpy as np

import talweg as tw
from .. import nn
from .._checked import value_error


class Masks:
    """Which weights of a model are kept. Call it after each step of an optimizer: pruned weights stay zero."""

    def __init__(self, masks):
        self.masks = masks

    def __call__(self):
        with tw.no_grad():
            for weight, mask in self.masks:
                weight.copy_(weight * mask)

    @property
    def sparsity(self):
        """The share of weights that are zero."""
        kept = sum(float(m.sum().item()) for _, m in self.masks)
        return 1 - kept / max(sum(m.numel() for _, m in self.masks), 1)


def _weights(model):
    return [m.weight for m in model.modules() if isinstance(m, (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d))]


def _check(amount):
    if not 0 <= amount < 1:
        raise value_error(f"prune: amount is a share from 0 to 1, not {amount}")


def prune_magnitude(model, amount):
    """Puts the smallest ``amount`` of all weights of linear layers and convolutions to zero, in place."""
    return _pruned(model, amount, 1)


def prune_blocks(model, amount, width=16):
    """As `prune_magnitude`, by blocks of ``width`` weights of a row, which have their mean magnitude in common."""
    return _pruned(model, amount, width)


def _pruned(model, amount, width):
    _check(amount)
    blocks = []
    for weight in _weights(model):
        w = np.abs(weight.detach().numpy()).reshape(weight.shape[0], -1)
        more = -w.shape[1] % width
        padded = np.pad(w, ((0, 0), (0, more)), constant_values=np.nan)
        blocks.append((weight, w.shape, np.nanmean(padded.reshape(len(w), -1, width), -1)))
    if not blocks:
        raise value_error("prune: the model has no linear layer and no convolution")
    cut = np.quantile(np.concatenate([b.ravel() for _, _, b in blocks]), amount)
    masks = []
    for weight, shape, block in blocks:
        kept = np.repeat(block > cut if amount else block >= cut, width, -1)[:, : shape[1]]
        masks.append((weight, tw.tensor(kept.reshape(tuple(weight.shape)).astype(np.float32))))
    masks = Masks(masks)
    masks()
    return masks


_CHANNELS = (nn.Linear, nn.Conv2d)
_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d)


def prune_channels(model, amount, multiple=1):
    """A copy of a ``Sequential`` without the ``amount`` of output channels of each layer whose weights are smallest: a
    smaller dense model. The last layer keeps its outputs. Fine-tune the result.

    As many channels as are nearest to that and a ``multiple`` stay: vectors of a processor hold 8 or 16 numbers, and a
    rest of them costs as much as a whole one. A layer with fewer channels than that keeps all.

    >>> net = tw.nn.Sequential(tw.nn.Linear(4, 30), tw.nn.ReLU(), tw.nn.Linear(30, 2))
    >>> prune_channels(net, 0.5)[0].out_features, prune_channels(net, 0.5, multiple=8)[0].out_features
    (15, 16)
    """
    _check(amount)
    if not isinstance(multiple, int) or multiple < 1:
        raise value_error(f"prune_channels: multiple is a whole number from 1 on, not {multiple!r}")
    if not isinstance(model, nn.Sequential):
        raise value_error(f"prune_channels: takes a Sequential, whose layers follow each other, not {type(model).__name__}")
    model = copy.deepcopy(model)
    layers = list(model)
    where = [i for i, m in enumerate(layers) if isinstance(m, _CHANNELS)]
    if not where:
        raise value_error("prune_channels: the model has no linear layer and no convolution")
    for at, following in zip(where, where[1:]):
        layer = layers[at]
        if getattr(layer, "groups", 1) != 1 or getattr(layers[following], "groups", 1) != 1:
            raise value_error(f"prune_channels: layer {at} is grouped: its channels belong together")
        w = layer.weight.detach().numpy()
        size = np.abs(w).reshape(len(w), -1).sum(1)
        count = min(len(w), max(1, round(len(w) * (1 - amount) / multiple)) * multiple)
        kept = np.sort(np.argsort(-size, kind="stable")[:count])
        _keep_outputs(layer, kept)
        for m in layers[at + 1 : following]:
            if isinstance(m, _NORMS):
                _keep_norm(m, kept)
        _keep_inputs(layers[following], kept, len(w))
    return model


def _take(tensor, kept, dim=0):
    return tw.tensor(np.ascontiguousarray(np.take(tensor.detach().numpy(), kept, dim)))


def _keep_outputs(layer, kept):
    layer.weight = nn.Parameter(_take(layer.weight, kept))
    if layer.bias is not None:
        layer.bias = nn.Parameter(_take(layer.bias, kept))
    setattr(layer, "out_features" if isinstance(layer, nn.Linear) else "out_channels", len(kept))


def _keep_norm(norm, kept):
    for name in ("weight", "bias"):
        if getattr(norm, name) is not None:
            setattr(norm, name, nn.Parameter(_take(getattr(norm, name), kept)))
    for name in ("running_mean", "running_var"):
        if getattr(norm, name) is not None:
            norm.register_buffer(name, _take(getattr(norm, name), kept))
    norm.num_features = len(kept)


def _keep_inputs(layer, kept, before):
    inputs = layer.weight.shape[1]
    if inputs % before:
        raise value_error(f"prune_channels: {inputs} inputs do not follow from {before} channels")
    # After a Flatten each channel has as many inputs as it had places.
    each = inputs // before
    places = (kept[:, None] * each + np.arange(each)).ravel()
    layer.weight = nn.Parameter(_take(layer.weight, places, 1))
    setattr(layer, "in_features" if isinstance(layer, nn.Linear) else "in_channels", len(places))
