"""Vision models as torchvision writes them: outputs and a step of training for the same weights."""

import math
from collections import OrderedDict
from functools import partial
from typing import Any, Callable, List, Optional, Tuple

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor

from start import seeded


def make_layers(cfg, batch_norm=False):
    layers: List[nn.Module] = []
    in_channels = 3
    for v in cfg:
        if v == "M":
            layers += [nn.MaxPool2d(kernel_size=2, stride=2)]
        else:
            conv2d = nn.Conv2d(in_channels, v, kernel_size=3, padding=1)
            layers += [conv2d, nn.BatchNorm2d(v), nn.ReLU(inplace=True)] if batch_norm else [conv2d, nn.ReLU(inplace=True)]
            in_channels = v
    return nn.Sequential(*layers)


class VGG(nn.Module):
    def __init__(self, num_classes: int = 5, init_weights: bool = True, dropout: float = 0.0) -> None:
        super().__init__()
        self.features = make_layers([4, "M", 8, "M"], batch_norm=True)
        self.avgpool = nn.AdaptiveAvgPool2d((2, 2))
        self.classifier = nn.Sequential(nn.Linear(8 * 2 * 2, 16), nn.ReLU(True), nn.Dropout(p=dropout), nn.Linear(16, num_classes))
        if init_weights:
            for m in self.modules():
                if isinstance(m, nn.Conv2d):
                    nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
                    if m.bias is not None:
                        nn.init.constant_(m.bias, 0)
                elif isinstance(m, nn.Linear):
                    nn.init.normal_(m.weight, 0, 0.01)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.flatten(self.avgpool(self.features(x)), 1)
        return self.classifier(x)


class Bottleneck(nn.Module):
    expansion: int = 2

    def __init__(self, inplanes: int, planes: int, stride: int = 1, downsample: Optional[nn.Module] = None, groups: int = 1, norm_layer: Optional[Callable[..., nn.Module]] = None):
        super().__init__()
        norm_layer = nn.BatchNorm2d if norm_layer is None else norm_layer
        self.conv1, self.bn1 = nn.Conv2d(inplanes, planes, 1, bias=False), norm_layer(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, stride=stride, padding=1, groups=groups, bias=False)
        self.bn2, self.conv3 = norm_layer(planes), nn.Conv2d(planes, planes * self.expansion, 1, bias=False)
        self.bn3, self.relu = norm_layer(planes * self.expansion), nn.ReLU(inplace=True)
        self.downsample, self.stride = downsample, stride

    def forward(self, x: Tensor) -> Tensor:
        identity = x
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        if self.downsample is not None:
            identity = self.downsample(x)
        out += identity
        return self.relu(out)


class ResNeXt(nn.Module):
    def __init__(self, zero_init_residual=True):
        super().__init__()
        self.stem = nn.Sequential(OrderedDict([("conv", nn.Conv2d(3, 8, 7, stride=2, padding=3, bias=False)), ("bn", nn.BatchNorm2d(8)), ("relu", nn.ReLU(inplace=True)), ("pool", nn.MaxPool2d(3, 2, 1))]))
        down = nn.Sequential(nn.Conv2d(8, 16, 1, stride=2, bias=False), nn.BatchNorm2d(16))
        self.layer = nn.Sequential(Bottleneck(8, 8, 2, down, groups=4), Bottleneck(16, 8, groups=4))
        self.fc = nn.Linear(16, 5)
        if zero_init_residual:
            for m in self.modules():
                if isinstance(m, Bottleneck) and m.bn3.weight is not None:
                    nn.init.constant_(m.bn3.weight, 0)

    def forward(self, x):
        return self.fc(self.layer(self.stem(x)).mean([2, 3]))


class _DenseLayer(nn.Module):
    def __init__(self, num_input_features: int, growth_rate: int, bn_size: int, drop_rate: float):
        super().__init__()
        self.norm1, self.relu1 = nn.BatchNorm2d(num_input_features), nn.ReLU(inplace=True)
        self.conv1 = nn.Conv2d(num_input_features, bn_size * growth_rate, kernel_size=1, stride=1, bias=False)
        self.norm2, self.relu2 = nn.BatchNorm2d(bn_size * growth_rate), nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(bn_size * growth_rate, growth_rate, kernel_size=3, stride=1, padding=1, bias=False)
        self.drop_rate = float(drop_rate)

    def forward(self, inputs: List[Tensor]) -> Tensor:
        bottleneck_output = self.conv1(self.relu1(self.norm1(torch.cat(inputs, 1))))
        new_features = self.conv2(self.relu2(self.norm2(bottleneck_output)))
        return F.dropout(new_features, p=self.drop_rate, training=self.training) if self.drop_rate > 0 else new_features


class _DenseBlock(nn.ModuleDict):
    def __init__(self, num_layers: int, num_input_features: int, growth_rate: int):
        super().__init__()
        for i in range(num_layers):
            self.add_module("denselayer%d" % (i + 1), _DenseLayer(num_input_features + i * growth_rate, growth_rate, 2, 0.0))

    def forward(self, init_features: Tensor) -> Tensor:
        features = [init_features]
        for name, layer in self.items():
            features.append(layer(features))
        return torch.cat(features, 1)


class DenseNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(OrderedDict([("conv0", nn.Conv2d(3, 4, 3, padding=1, bias=False)), ("norm0", nn.BatchNorm2d(4)), ("relu0", nn.ReLU(inplace=True))]))
        self.features.add_module("denseblock1", _DenseBlock(2, 4, 4))
        self.features.add_module("transition1", nn.Sequential(nn.BatchNorm2d(12), nn.ReLU(inplace=True), nn.Conv2d(12, 6, 1, bias=False), nn.AvgPool2d(2, 2)))
        self.classifier = nn.Linear(6, 5)

    def forward(self, x):
        out = F.relu(self.features(x), inplace=True)
        out = F.adaptive_avg_pool2d(out, (1, 1))
        return self.classifier(torch.flatten(out, 1))


class SqueezeExcitation(nn.Module):
    def __init__(self, input_channels, squeeze_channels, activation=nn.ReLU, scale_activation=nn.Sigmoid):
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc1, self.fc2 = nn.Conv2d(input_channels, squeeze_channels, 1), nn.Conv2d(squeeze_channels, input_channels, 1)
        self.activation, self.scale_activation = activation(), scale_activation()

    def forward(self, input: Tensor) -> Tensor:
        scale = self.scale_activation(self.fc2(self.activation(self.fc1(self.avgpool(input)))))
        return scale * input


class MobileNetV3(nn.Module):
    def __init__(self):
        super().__init__()
        norm = partial(nn.BatchNorm2d, eps=0.001, momentum=0.01)
        self.features = nn.Sequential(
            nn.Conv2d(3, 8, 3, 2, 1, bias=False), norm(8), nn.Hardswish(inplace=True),
            nn.Conv2d(8, 8, 5, 2, padding=2, groups=8, bias=False), norm(8), nn.Hardswish(),
            SqueezeExcitation(8, 4, scale_activation=nn.Hardsigmoid), nn.Conv2d(8, 12, 1, bias=False), norm(12),
        )
        self.classifier = nn.Sequential(nn.Linear(12, 16), nn.Hardswish(inplace=True), nn.Dropout(p=0.0, inplace=True), nn.Linear(16, 5))

    def forward(self, x):
        x = nn.AdaptiveAvgPool2d(1)(self.features(x))
        return self.classifier(torch.flatten(x, 1))


def stochastic_depth(input: Tensor, p: float, mode: str, training: bool = True) -> Tensor:
    if not training or p == 0.0:
        return input
    survival_rate = 1.0 - p
    size = [input.shape[0]] + [1] * (input.ndim - 1) if mode == "row" else [1] * input.ndim
    noise = torch.empty(size, dtype=input.dtype, device=input.device)
    noise = noise.bernoulli_(survival_rate)
    if survival_rate > 0.0:
        noise.div_(survival_rate)
    return input * noise


class LayerNorm2d(nn.LayerNorm):
    def forward(self, x: Tensor) -> Tensor:
        x = x.permute(0, 2, 3, 1)
        x = F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)
        return x.permute(0, 3, 1, 2)


class Permute(nn.Module):
    def __init__(self, dims: List[int]):
        super().__init__()
        self.dims = dims

    def forward(self, x: Tensor) -> Tensor:
        return torch.permute(x, self.dims)


class CNBlock(nn.Module):
    def __init__(self, dim, layer_scale: float = 1e-1):
        super().__init__()
        norm_layer = partial(nn.LayerNorm, eps=1e-6)
        self.block = nn.Sequential(
            nn.Conv2d(dim, dim, kernel_size=7, padding=3, groups=dim, bias=True), Permute([0, 2, 3, 1]), norm_layer(dim),
            nn.Linear(in_features=dim, out_features=4 * dim, bias=True), nn.GELU(), nn.Linear(4 * dim, dim, bias=True), Permute([0, 3, 1, 2]),
        )
        self.layer_scale = nn.Parameter(torch.ones(dim, 1, 1) * layer_scale)

    def forward(self, input: Tensor) -> Tensor:
        result = self.layer_scale * self.block(input)
        result = stochastic_depth(result, 0.0, "row", self.training)
        result += input
        return result


class ConvNeXt(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Conv2d(3, 8, kernel_size=4, stride=4), LayerNorm2d(8, eps=1e-6), CNBlock(8), CNBlock(8))
        self.classifier = nn.Sequential(LayerNorm2d(8), nn.Flatten(1), nn.Linear(8, 5))
        for m in self.modules():
            if isinstance(m, (nn.Conv2d, nn.Linear)):
                nn.init.trunc_normal_(m.weight, std=0.02)
                if m.bias is not None:
                    nn.init.zeros_(m.bias)

    def forward(self, x):
        return self.classifier(F.adaptive_avg_pool2d(self.features(x), 1))


class MLPBlock(nn.Sequential):
    def __init__(self, in_dim: int, mlp_dim: int, dropout: float):
        super().__init__(nn.Linear(in_dim, mlp_dim), nn.GELU(), nn.Dropout(dropout), nn.Linear(mlp_dim, in_dim), nn.Dropout(dropout))


class EncoderBlock(nn.Module):
    def __init__(self, num_heads: int, hidden_dim: int, mlp_dim: int, norm_layer=partial(nn.LayerNorm, eps=1e-6)):
        super().__init__()
        self.ln_1 = norm_layer(hidden_dim)
        self.self_attention = nn.MultiheadAttention(hidden_dim, num_heads, dropout=0.0, batch_first=True)
        self.dropout = nn.Dropout(0.0)
        self.ln_2 = norm_layer(hidden_dim)
        self.mlp = MLPBlock(hidden_dim, mlp_dim, 0.0)

    def forward(self, input: Tensor):
        assert input.dim() == 3, f"Expected (batch_size, seq_length, hidden_dim) got {input.shape}"
        x = self.ln_1(input)
        x, _ = self.self_attention(x, x, x, need_weights=False)
        x = self.dropout(x) + input
        return x + self.mlp(self.ln_2(x))


class VisionTransformer(nn.Module):
    def __init__(self, image_size: int = 32, patch_size: int = 8, hidden_dim: int = 16):
        super().__init__()
        self.image_size, self.patch_size, self.hidden_dim = image_size, patch_size, hidden_dim
        self.conv_proj = nn.Conv2d(3, hidden_dim, kernel_size=patch_size, stride=patch_size)
        seq_length = (image_size // patch_size) ** 2 + 1
        self.class_token = nn.Parameter(torch.zeros(1, 1, hidden_dim))
        self.pos_embedding = nn.Parameter(torch.empty(1, seq_length, hidden_dim).normal_(std=0.02))
        layers: "OrderedDict[str, nn.Module]" = OrderedDict()
        for i in range(2):
            layers[f"encoder_layer_{i}"] = EncoderBlock(2, hidden_dim, 32)
        self.layers, self.ln = nn.Sequential(layers), nn.LayerNorm(hidden_dim)
        self.heads = nn.Sequential(OrderedDict(head=nn.Linear(hidden_dim, 5)))
        fan_in = self.conv_proj.in_channels * self.conv_proj.kernel_size[0] * self.conv_proj.kernel_size[1]
        nn.init.trunc_normal_(self.conv_proj.weight, std=math.sqrt(1 / fan_in))

    def _process_input(self, x: Tensor) -> Tensor:
        n, c, h, w = x.shape
        p = self.patch_size
        x = self.conv_proj(x).reshape(n, self.hidden_dim, (h // p) * (w // p))
        return x.permute(0, 2, 1)

    def forward(self, x: Tensor):
        x = self._process_input(x)
        batch_class_token = self.class_token.expand(x.shape[0], -1, -1)
        x = torch.cat([batch_class_token, x], dim=1) + self.pos_embedding
        return self.heads(self.ln(self.layers(x))[:, 0])


class SwinBlock(nn.Module):
    """Attention in shifted windows with relative positions."""

    def __init__(self, dim=8, window=4, shift=2, heads=2):
        super().__init__()
        self.window, self.shift, self.heads = window, shift, heads
        self.qkv, self.proj, self.norm = nn.Linear(dim, dim * 3), nn.Linear(dim, dim), nn.LayerNorm(dim)
        self.relative_position_bias_table = nn.Parameter(torch.zeros((2 * window - 1) * (2 * window - 1), heads))
        nn.init.trunc_normal_(self.relative_position_bias_table, std=0.02)
        coords = torch.stack(torch.meshgrid(torch.arange(window), torch.arange(window), indexing="ij"))
        flat = torch.flatten(coords, 1)
        relative = (flat[:, :, None] - flat[:, None, :]).permute(1, 2, 0).contiguous()
        relative[:, :, 0] += window - 1
        relative[:, :, 1] += window - 1
        relative[:, :, 0] *= 2 * window - 1
        self.register_buffer("relative_position_index", relative.sum(-1).flatten())

    def forward(self, x: Tensor) -> Tensor:
        B, H, W, C = x.shape
        w, s = self.window, self.shift
        y = torch.roll(self.norm(x), shifts=(-s, -s), dims=(1, 2))
        windows = (H // w) * (W // w)
        y = y.view(B, H // w, w, W // w, w, C).permute(0, 1, 3, 2, 4, 5).reshape(B * windows, w * w, C)
        qkv = self.qkv(y).reshape(y.size(0), y.size(1), 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4)
        q, k, v = qkv[0], qkv[1], qkv[2]
        attn = (q * (C // self.heads) ** -0.5).matmul(k.transpose(-2, -1))
        bias = self.relative_position_bias_table[self.relative_position_index].view(w * w, w * w, -1)
        attn = attn + bias.permute(2, 0, 1).contiguous().unsqueeze(0)
        mask = y.new_zeros((H, W))
        h_slices = ((0, -w), (-w, -s), (-s, None))
        count = 0
        for h in h_slices:
            for v_ in h_slices:
                mask[h[0] : h[1], v_[0] : v_[1]] = count
                count += 1
        mask = mask.view(H // w, w, W // w, w).permute(0, 2, 1, 3).reshape(windows, w * w)
        mask = mask.unsqueeze(1) - mask.unsqueeze(2)
        mask = mask.masked_fill(mask != 0, float(-100.0)).masked_fill(mask == 0, float(0.0))
        attn = attn.view(B, windows, self.heads, w * w, w * w) + mask.unsqueeze(1).unsqueeze(0)
        attn = F.softmax(attn.view(-1, self.heads, w * w, w * w), dim=-1)
        y = self.proj(attn.matmul(v).transpose(1, 2).reshape(B * windows, w * w, C))
        y = y.view(B, H // w, W // w, w, w, C).permute(0, 1, 3, 2, 4, 5).reshape(B, H, W, C)
        return x + torch.roll(y, shifts=(s, s), dims=(1, 2))


class Swin(nn.Module):
    def __init__(self):
        super().__init__()
        self.patches = nn.Sequential(nn.Conv2d(3, 8, kernel_size=4, stride=4), Permute([0, 2, 3, 1]), nn.LayerNorm(8))
        self.block, self.reduction = SwinBlock(), nn.Linear(32, 16, bias=False)
        self.head = nn.Linear(16, 5)

    def forward(self, x):
        x = self.block(self.patches(x))
        x0, x1, x2, x3 = x[..., 0::2, 0::2, :], x[..., 1::2, 0::2, :], x[..., 0::2, 1::2, :], x[..., 1::2, 1::2, :]
        x = self.reduction(torch.cat([x0, x1, x2, x3], -1))
        return self.head(x.flatten(1, 2).mean(dim=1))


class Inception(nn.Module):
    def __init__(self):
        super().__init__()
        self.branch1 = nn.Conv2d(3, 2, 1)
        self.branch2 = nn.Sequential(nn.Conv2d(3, 2, kernel_size=(1, 5), padding=(0, 2)), nn.Conv2d(2, 2, (5, 1), padding=(2, 0)))
        self.branch3 = nn.Sequential(nn.MaxPool2d(kernel_size=3, stride=1, padding=1, ceil_mode=True), nn.Conv2d(3, 2, 1))
        self.fc = nn.Linear(6, 5)

    def _forward(self, x: Tensor) -> List[Tensor]:
        return [self.branch1(x), F.avg_pool2d(self.branch2(x), kernel_size=3, stride=1, padding=1), self.branch3(x)]

    def forward(self, x):
        x_ch0 = torch.unsqueeze(x[:, 0], 1) * (0.229 / 0.5) + (0.485 - 0.5) / 0.5
        x = torch.cat((x_ch0, x[:, 1:]), 1)
        x = torch.cat(self._forward(x), 1)
        return self.fc(F.adaptive_max_pool2d(x, (1, 1)).view(x.size(0), -1))


class FPN(nn.Module):
    """A feature pyramid with anchors, as detectors begin."""

    def __init__(self):
        super().__init__()
        self.c1, self.c2 = nn.Conv2d(3, 4, 3, 2, 1), nn.Conv2d(4, 8, 3, 2, 1)
        self.inner_blocks, self.layer_blocks = nn.ModuleList(), nn.ModuleList()
        for c in (4, 8):
            self.inner_blocks.append(nn.Conv2d(c, 4, 1))
            self.layer_blocks.append(nn.Conv2d(4, 4, 3, padding=1))
        self.cls = nn.Linear(4, 5)

    def forward(self, x):
        feats = [F.relu(self.c1(x))]
        feats.append(F.relu(self.c2(feats[-1])))
        last_inner = self.inner_blocks[-1](feats[-1])
        results = [self.layer_blocks[-1](last_inner)]
        for idx in range(len(feats) - 2, -1, -1):
            lateral = self.inner_blocks[idx](feats[idx])
            top_down = F.interpolate(last_inner, size=lateral.shape[-2:], mode="nearest")
            last_inner = lateral + top_down
            results.insert(0, self.layer_blocks[idx](last_inner))
        return self.cls(sum(r.amax(dim=(-2, -1)) for r in results))


images = torch.from_numpy(np.random.RandomState(0).randn(4, 3, 32, 32).astype(np.float32))
labels = torch.tensor([0, 3, 1, 4])
losses = []
for build in (VGG, ResNeXt, DenseNet, MobileNetV3, ConvNeXt, VisionTransformer, Swin, Inception, FPN):
    model = seeded(torch, build(), scale=0.3)
    model.eval()
    with torch.no_grad():
        losses += model(images).norm(dim=1).tolist()
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for step in range(3):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    losses.append(sum(p.numel() for p in model.parameters()))
