"""Blocks of ResNet-18 and MobileNet v2, for the scripts that measure and compress them."""

from talweg import nn


class Basic(nn.Module):
    """A block of ResNet-18."""

    def __init__(self, inputs, outputs, stride):
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.around = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.around = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.norm1(self.conv1(x)).relu()
        return (self.norm2(self.conv2(y)) + self.around(x)).relu()


def unit(inputs, outputs, kernel=1, stride=1, groups=1, is_linear=False):
    conv = nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, groups=groups, bias=False)
    return [conv, nn.BatchNorm2d(outputs), *([] if is_linear else [nn.ReLU6()])]


class Inverted(nn.Module):
    """A block of MobileNet v2."""

    def __init__(self, inputs, outputs, stride, expand):
        inner = inputs * expand
        wide = unit(inputs, inner) if expand > 1 else []
        self.units = nn.Sequential(*wide, *unit(inner, inner, 3, stride, inner), *unit(inner, outputs, is_linear=True))
        self.is_residual = stride == 1 and inputs == outputs

    def forward(self, x):
        return x + self.units(x) if self.is_residual else self.units(x)
