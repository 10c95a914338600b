"""Quantization-aware training: layers that round in their forward pass, and let gradients through."""

# mypy: ignore-errors
import talweg as tw
from .. import nn
from .._checked import value_error
from ..nn import functional as F


def fake_quantize(x, scale, bits=8):
    """x rounded to steps of ``scale``, of which there are 2^bits - 1; the gradient is that of x where it is in range
    (a straight-through estimator).

    >>> x = tw.tensor([0.3, 9.0], requires_grad=True)
    >>> y = tw.compression.fake_quantize(x, tw.tensor(0.25), bits=4)
    >>> y.sum().backward()
    >>> y.tolist(), x.grad.tolist()
    ([0.25, 1.75], [1.0, 0.0])
    """
    most = 2 ** (bits - 1) - 1
    cut = x.clamp(-most * scale, most * scale) if not isinstance(scale, tw.Tensor) else tw.minimum(
        tw.maximum(x, -most * scale), most * scale
    )
    return cut + ((cut / scale).round() * scale - cut).detach()


class _FakeQuantized(nn.Module):
    """A layer whose weight, and input, are rounded."""

    def __init__(self, layer, weight_bits, activation_bits):
        super().__init__()
        self.layer, self.weight_bits, self.activation_bits = layer, weight_bits, activation_bits
        self.register_buffer("most", tw.zeros(()))

    def rounded_weight(self):
        w = self.layer.weight
        most = w.detach().abs().amax(tuple(range(1, w.ndim)), keepdim=True)
        scale = tw.where(most > 0, most, 1.0) / (2 ** (self.weight_bits - 1) - 1)
        return fake_quantize(w, scale, self.weight_bits)

    def forward(self, x):
        if self.training:
            now = x.detach().abs().max()
            # The first batch as it is, then slowly.
            self.most.copy_(tw.where(self.most > 0, self.most * 0.95 + now * 0.05, now))
        scale = tw.maximum(self.most, tw.full((), 1e-12)) / (2 ** (self.activation_bits - 1) - 1)
        x, w, a = fake_quantize(x, scale, self.activation_bits), self.rounded_weight(), self.layer
        if isinstance(a, nn.Linear):
            return F.linear(x, w, a.bias)
        return F.conv2d(x, w, a.bias, a.stride, a.padding, a.dilation, a.groups)


def _replace(model, wanted, make):
    count = 0
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if wanted(child):
                setattr(module, name, make(child))
                count += 1
    return count


def prepare_qat(model, weight_bits=8, activation_bits=8):
    """Linear layers and 2-D convolutions round from now on, in place; train on, then call `finish_qat`."""
    is_plain = lambda m: type(m) in (nn.Linear, nn.Conv2d)  # noqa: E731
    if not _replace(model, is_plain, lambda m: _FakeQuantized(m, weight_bits, activation_bits)):
        raise value_error("prepare_qat: the model has no linear layer and no convolution inside of it")
    return model


def finish_qat(model):
    """The layers themselves again, with weights as they were rounded: quantizing them loses nothing more."""

    def plain(m):
        with tw.no_grad():
            m.layer.weight.copy_(m.rounded_weight().detach())
        return m.layer

    _replace(model, lambda m: isinstance(m, _FakeQuantized), plain)
    return model
