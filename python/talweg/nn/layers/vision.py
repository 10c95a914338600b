"""Pads and resizing as modules."""

from ..._checked import check, value_error
from .. import functional as F
from ..module import Module
from .common import shown

__all__ = ["Upsample", "UpsamplingBilinear2d", "UpsamplingNearest2d"]


class _Pad(Module):
    _rank, _how = 0, ""

    def __init__(self, padding):
        super().__init__()
        self._keep(padding)

    def _keep(self, padding):
        widths = tuple(padding) if isinstance(padding, (tuple, list)) else (padding,) * (2 * self._rank)
        if len(widths) != 2 * self._rank:
            raise value_error(f"{type(self).__name__}: padding has {len(widths)} widths, not {2 * self._rank}")
        self.padding = widths

    def forward(self, input):
        return F.pad(input, self.padding, self._how)

    def extra_repr(self):
        return f"{self.padding}"


class _ConstantPad(_Pad):
    def __init__(self, padding, value):
        Module.__init__(self)
        self._keep(padding)
        self.value = value

    def forward(self, input):
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self):
        return f"padding={self.padding}, value={self.value}"


class _ZeroPad(_Pad):
    _how = "constant"


def _pads(kind, base, mode, ranks, what):
    made = []
    for rank in ranks:
        name = f"{kind}{rank}d"
        body = {"_rank": rank, "_how": mode, "__doc__": f"Pads the last {rank} dimensions {what}.", "__module__": __name__}
        made.append(type(name, (base,), body))
        __all__.append(name)
    return made


ConstantPad1d, ConstantPad2d, ConstantPad3d = _pads("ConstantPad", _ConstantPad, "constant", (1, 2, 3), "with a number")
ZeroPad1d, ZeroPad2d, ZeroPad3d = _pads("ZeroPad", _ZeroPad, "constant", (1, 2, 3), "with zeros")
ReflectionPad1d, ReflectionPad2d, ReflectionPad3d = _pads("ReflectionPad", _Pad, "reflect", (1, 2, 3), "with their mirror image")
ReplicationPad1d, ReplicationPad2d, ReplicationPad3d = _pads("ReplicationPad", _Pad, "replicate", (1, 2, 3), "with the edge")
CircularPad1d, CircularPad2d, CircularPad3d = _pads("CircularPad", _Pad, "circular", (1, 2, 3), "with the other end")


class Upsample(Module):
    """Resized pictures: to ``size``, or by ``scale_factor``.

    >>> import talweg as tw
    >>> tw.nn.Upsample(scale_factor=2)(tw.ones(1, 1, 2, 2)).shape
    talweg.Size([1, 1, 4, 4])
    """

    def __init__(self, size=None, scale_factor=None, mode="nearest", align_corners=None, recompute_scale_factor=None):
        super().__init__()
        many = isinstance(scale_factor, (tuple, list))
        factor = tuple(map(float, scale_factor)) if many else None if scale_factor is None else float(scale_factor)
        self.size, self.scale_factor, self.mode = size, factor, mode
        self.align_corners, self.recompute_scale_factor = align_corners, recompute_scale_factor

    def forward(self, input):
        settings = (self.size, self.scale_factor, self.mode, self.align_corners, self.recompute_scale_factor)
        return F.interpolate(input, *settings)

    def extra_repr(self):
        which = dict(size=self.size) if self.scale_factor is None else dict(scale_factor=self.scale_factor)
        return shown(**which, mode=self.mode)


class UpsamplingNearest2d(Upsample):
    """``Upsample(mode="nearest")``."""

    def __init__(self, size=None, scale_factor=None):
        super().__init__(size, scale_factor, "nearest")


class UpsamplingBilinear2d(Upsample):
    """``Upsample(mode="bilinear", align_corners=True)``."""

    def __init__(self, size=None, scale_factor=None):
        super().__init__(size, scale_factor, "bilinear", True)


check(globals(), __all__)
