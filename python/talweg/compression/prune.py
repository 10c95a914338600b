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


def prune_channels(model, amount, multiple=1, example=None):
    """A copy of a model without the ``amount`` of output channels of each layer whose weights are smallest: a smaller
    dense model. The last layer keeps its outputs. Fine-tune the result.

    Without ``example`` the model is a ``Sequential`` of layers that follow each other. With it, a tuple of inputs, the
    model is any module: it runs on the example, and channels that meet in sums, products and concatenations (residual
    connections, squeeze-and-excitation) are pruned together. Channels that reach the output, a normalization over
    channels or a module with other parameters stay.

    As many channels as are nearest to that and a ``multiple`` stay: vectors of a processor hold 8 or 16 numbers, and a
    rest of them costs as much as a whole one. A layer with fewer channels than that keeps all.

    >>> net = tw.nn.Sequential(tw.nn.Linear(4, 30), tw.nn.ReLU(), tw.nn.Linear(30, 2))
    >>> prune_channels(net, 0.5)[0].out_features, prune_channels(net, 0.5, multiple=8)[0].out_features
    (15, 16)
    """
    _check(amount)
    if not isinstance(multiple, int) or multiple < 1:
        raise value_error(f"prune_channels: multiple is a whole number from 1 on, not {multiple!r}")
    if example is not None:
        return _prune_traced(model, amount, multiple, example if isinstance(example, (tuple, list)) else (example,))
    if not isinstance(model, nn.Sequential):
        name = type(model).__name__
        raise value_error(f"prune_channels: {name} is no Sequential; give example=(x,), so that its channels can be followed")
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
        kept = _largest(size, amount, multiple)
        _keep_outputs(layer, kept)
        for m in layers[at + 1 : following]:
            if isinstance(m, _NORMS):
                _keep_norm(m, kept)
        _keep_inputs(layers[following], kept, len(w))
    return model


def _largest(size, amount, multiple):
    """The places of the largest numbers: all but the ``amount``, made a ``multiple``."""
    count = min(len(size), max(1, round(len(size) * (1 - amount) / multiple)) * multiple)
    return np.sort(np.argsort(-size, kind="stable")[:count])


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


_MAKERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)
_ALL_NORMS = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)


def _is_depthwise(m):
    return isinstance(m, _MAKERS[1:]) and m.groups == m.in_channels == m.out_channels > 1


class _Tracer:
    """Follows channels through a model by NaN: those of a layer's output are poisoned, and what other layers receive says
    where they went. Poison ends where a layer mixes channels.
    """

    def __init__(self, model, example):
        self.model, self.example, self.hooks = model, example, []
        self.source, self.mask, self.seen = None, None, {}
        own = {}
        for m in model.modules():
            if isinstance(m, _MAKERS) or isinstance(m, _ALL_NORMS):
                own[m] = True
            elif m._parameters and any(p is not None for p in m._parameters.values()):
                own[m] = False
        self.layers = [m for m in own if isinstance(m, _MAKERS)]
        for m, is_known in own.items():
            self.hooks.append(m.register_forward_pre_hook(self._before(m, is_known)))
            if is_known and isinstance(m, _MAKERS):
                self.hooks.append(m.register_forward_hook(self._after(m)))

    def close(self):
        for hook in self.hooks:
            hook.remove()

    def _axis(self, m, x):
        return x.ndim - 1 if isinstance(m, nn.Linear) else 1

    def _before(self, m, is_known):
        def hook(_, args):
            x = args[0]
            if not isinstance(x, tw.Tensor) or not x.is_floating_point():
                return None
            poisoned = x.isnan()
            axis = self._axis(m, x) if is_known else x.ndim - 1
            where = poisoned.numpy().any(axis=tuple(i for i in range(x.ndim) if i != axis))
            old = self.seen.get(m)
            self.seen[m] = where if old is None or len(old) != len(where) else old | where
            # Channels go on through layers that keep them apart.
            if not where.any() or isinstance(m, _ALL_NORMS) or _is_depthwise(m):
                return None
            return (tw.where(poisoned, tw.zeros_like(x), x), *args[1:])

        return hook

    def _after(self, m):
        def hook(_, args, y):
            if m is not self.source:
                return None
            axis = self._axis(m, y)
            shape = [1] * y.ndim
            shape[axis] = y.shape[axis]
            return tw.where(self.mask.reshape(shape), tw.full_like(y, float("nan")), y)

        return hook

    def _run(self, source, mask):
        """Which input channels of each layer are poisoned, and whether the output is."""
        self.source, self.mask, self.seen = source, tw.tensor(mask), {}
        with tw.no_grad():
            y = self.model(*self.example)
        outputs = [y] if isinstance(y, tw.Tensor) else [t for t in y if isinstance(t, tw.Tensor)]
        return self.seen, any(bool(np.isnan(t.numpy()).any()) for t in outputs if t.is_floating_point())

    def readers(self, source):
        """For each layer that receives channels of ``source`` the channel at each of its inputs, or -1; None if channels
        do not stay apart.
        """
        count = source.weight.shape[0]
        seen, reaches_output = self._run(source, np.ones(count, bool))
        reached = {m: where for m, where in seen.items() if where.any()}
        if reaches_output or any(not isinstance(m, _MAKERS + _ALL_NORMS) for m in reached):
            return None
        channel = {m: np.zeros(len(where), np.int64) for m, where in reached.items()}
        # The bits of a channel's number, each beside its complement: what both poison comes from several channels.
        for bit in range(max(1, (count - 1).bit_length())):
            is_set = (np.arange(count) >> bit & 1).astype(bool)
            halves = [self._run(source, half)[0] if half.any() else {} for half in (is_set, ~is_set)]
            for m, where in reached.items():
                one, other = (h.get(m, np.zeros_like(where)) for h in halves)
                if (one & other).any() or (one | other)[where].sum() != where.sum():
                    return None
                channel[m] += one.astype(np.int64) << bit
        return {m: np.where(reached[m], channel[m], -1) for m in reached}


def _groups(model, example):
    """Layers whose output channels belong together, with the layers that read them."""
    tracer = _Tracer(model, example)
    try:
        makers = [m for m in tracer.layers if not _is_depthwise(m)]
        readers = {m: tracer.readers(m) for m in makers if getattr(m, "groups", 1) == 1}
    finally:
        tracer.close()
    groups = []
    for m, reached in readers.items():
        new = {"makers": [m], "readers": dict(reached or {}), "is_free": reached is not None}
        for g in list(groups):
            shared = [r for r in new["readers"] if r in g["readers"]]
            if any(np.array_equal(g["readers"][r], new["readers"][r]) for r in shared):
                # They meet in a sum or a product.
                new["makers"] = g["makers"] + new["makers"]
                new["readers"] = {**g["readers"], **new["readers"]}
                new["is_free"] = new["is_free"] and g["is_free"]
                groups.remove(g)
            elif any(((g["readers"][r] >= 0) & (new["readers"][r] >= 0)).any() for r in shared):
                # They overlap in another way than side by side.
                new["is_free"] = g["is_free"] = False
        groups.append(new)
    # What a layer of several groups of channels reads stays.
    grouped = [m for m in makers if getattr(m, "groups", 1) != 1]
    is_alike = lambda g: len({m.weight.shape[0] for m in g["makers"]}) == 1  # noqa: E731
    return [g for g in groups if g["is_free"] and is_alike(g) and not any(r in grouped for r in g["readers"])]


def _prune_traced(model, amount, multiple, example):
    was_training = model.training
    small = copy.deepcopy(model).eval()
    groups = _groups(small, example)
    if not groups:
        raise value_error("prune_channels: no channels can go: all reach the output or a layer that needs them together")
    gone = {}
    for g in groups:
        weights = [m.weight.detach().numpy() for m in g["makers"]]
        kept = _largest(sum(np.abs(w).reshape(len(w), -1).sum(1) for w in weights), amount, multiple)
        for m in g["makers"]:
            _keep_outputs(m, kept)
        lost = np.setdiff1d(np.arange(len(weights[0])), kept)
        for m, places in g["readers"].items():
            gone.setdefault(m, []).append(np.isin(places, lost))
    for m, masks in gone.items():
        kept = np.flatnonzero(~np.any(masks, 0))
        if isinstance(m, _ALL_NORMS):
            _keep_norm(m, kept)
        elif _is_depthwise(m):
            _keep_outputs(m, kept)
            m.groups = m.in_channels = len(kept)
        else:
            m.weight = nn.Parameter(_take(m.weight, kept, 1))
            setattr(m, "in_features" if isinstance(m, nn.Linear) else "in_channels", len(kept))
    try:
        with tw.no_grad():
            small(*example)
    except (tw.Error, ValueError, TypeError) as e:
        raise value_error(f"prune_channels: the model does not run with fewer channels; it has sizes of its own: {e}") from e
    return small.train(was_training)


def prune_heads(model, amount):
    """A copy of a model whose ``MultiheadAttention`` layers lack the ``amount`` of heads with the smallest weights. One
    stays. Inputs and outputs keep their sizes. Fine-tune the result.

    >>> layer = prune_heads(tw.nn.MultiheadAttention(8, 4, batch_first=True), 0.5)
    >>> layer.num_heads, layer.out_proj.weight.shape
    (2, talweg.Size([8, 4]))
    """
    _check(amount)
    model = copy.deepcopy(model)
    found = [m for m in model.modules() if isinstance(m, nn.MultiheadAttention)]
    if not found:
        raise value_error("prune_heads: the model has no MultiheadAttention")
    for m in found:
        heads, width = m.num_heads, m.head_dim
        parts = m.in_proj_weight.detach().numpy().reshape(3, heads, width, -1) if m._qkv_same_embed_dim else None
        own = ("q_proj_weight", "k_proj_weight", "v_proj_weight")
        each = list(parts) if parts is not None else [getattr(m, n).detach().numpy().reshape(heads, width, -1) for n in own]
        out = m.out_proj.weight.detach().numpy()
        size = sum(np.abs(p).sum((1, 2)) for p in each) + np.abs(out).reshape(len(out), heads, width).sum((0, 2))
        kept = _largest(size, amount, 1)
        places = (kept[:, None] * width + np.arange(width)).ravel()
        if parts is not None:
            m.in_proj_weight = nn.Parameter(tw.tensor(np.ascontiguousarray(parts[:, kept]).reshape(3 * len(places), -1)))
        else:
            for name in own:
                setattr(m, name, nn.Parameter(_take(getattr(m, name), places)))
        if m.in_proj_bias is not None:
            bias = m.in_proj_bias.detach().numpy().reshape(3, -1)[:, places]
            m.in_proj_bias = nn.Parameter(tw.tensor(np.ascontiguousarray(bias).ravel()))
        for name in ("bias_k", "bias_v"):
            if getattr(m, name) is not None:
                setattr(m, name, nn.Parameter(_take(getattr(m, name), places, 2)))
        m.out_proj.weight = nn.Parameter(_take(m.out_proj.weight, places, 1))
        m.out_proj.in_features = len(places)
        m.num_heads = len(kept)
    return model


def prune_layers(model, amount, calibrate):
    """A copy of a model without the ``amount`` of blocks that change their input least, and their names. Blocks are the
    parts of a ``Sequential`` or ``ModuleList`` that hold parameters and return what they take in the same shape; how
    much one changes is 1 less the cosine of input and output on ``calibrate``, a list of inputs. Fine-tune the result.

    >>> net = tw.nn.Sequential(*(tw.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True) for _ in range(4)))
    >>> small, names = prune_layers(net, 0.5, [tw.randn(2, 5, 8)])
    >>> len(small), len(names)
    (2, 2)
    """
    _check(amount)
    was_training = model.training
    small = copy.deepcopy(model).eval()
    blocks, hooks, change = {}, [], {}
    for path, parent in small.named_modules():
        if isinstance(parent, (nn.Sequential, nn.ModuleList)):
            for name, child in parent._modules.items():
                if any(True for _ in child.parameters()):
                    blocks[child] = (parent, name, f"{path}.{name}" if path else name)

    def hook(m, args, y):
        x, y = args[0], y if isinstance(y, tw.Tensor) else y[0]
        if not isinstance(x, tw.Tensor) or x.shape != y.shape:
            change[m] = None
        elif change.get(m, ()) is not None:
            x, y = (t.detach().numpy().astype(np.float64).ravel() for t in (x, y))
            cosine = x @ y / max(np.linalg.norm(x) * np.linalg.norm(y), 1e-30)
            change.setdefault(m, []).append(1 - cosine)

    for m in blocks:
        hooks.append(m.register_forward_hook(hook))
    batches = [b if isinstance(b, (tuple, list)) else (b,) for b in calibrate]
    with tw.no_grad():
        for batch in batches:
            small(*batch)
    for h in hooks:
        h.remove()
    # A block inside of another one that may go is not counted twice.
    inner = {m for block in blocks if change.get(block) for m in block.modules() if m is not block}
    free = [m for m in blocks if change.get(m) and m not in inner]
    if not free:
        raise value_error("prune_layers: no part of a Sequential or ModuleList returns what it takes in the same shape")
    out = sorted(free, key=lambda m: np.mean(change[m]))[: min(len(free) - 1, round(len(free) * amount))]
    names = [blocks[m][2] for m in blocks if m in out]
    for m in out:
        parent = blocks[m][0]
        left = {key: c for key, c in parent._modules.items() if c is not m}
        parent._modules.clear()
        is_numbered = all(key.isdigit() for key in left)
        parent._modules.update((str(i) if is_numbered else key, c) for i, (key, c) in enumerate(left.items()))
    with tw.no_grad():
        small(*batches[0])
    return small.train(was_training), names
