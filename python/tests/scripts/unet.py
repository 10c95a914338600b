"""Segmentation with a U-Net: skip connections, transposed convolutions, Dice and cross entropy, intersection over union."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from start import pictures, seeded


class DoubleConv(nn.Module):
    def __init__(self, in_channels, out_channels, mid_channels=None):
        super().__init__()
        if not mid_channels:
            mid_channels = out_channels
        self.double_conv = nn.Sequential(
            nn.Conv2d(in_channels, mid_channels, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(mid_channels),
            nn.ReLU(inplace=True),
            nn.Conv2d(mid_channels, out_channels, kernel_size=3, padding=1, bias=False),
            nn.BatchNorm2d(out_channels),
            nn.ReLU(inplace=True),
        )

    def forward(self, x):
        return self.double_conv(x)


class Up(nn.Module):
    def __init__(self, in_channels, out_channels, bilinear=True):
        super().__init__()
        if bilinear:
            self.up = nn.Upsample(scale_factor=2, mode="bilinear", align_corners=True)
            self.conv = DoubleConv(in_channels, out_channels, in_channels // 2)
        else:
            self.up = nn.ConvTranspose2d(in_channels, in_channels // 2, kernel_size=2, stride=2)
            self.conv = DoubleConv(in_channels, out_channels)

    def forward(self, x1, x2):
        x1 = self.up(x1)
        diffY, diffX = x2.size()[2] - x1.size()[2], x2.size()[3] - x1.size()[3]
        x1 = F.pad(x1, [diffX // 2, diffX - diffX // 2, diffY // 2, diffY - diffY // 2])
        return self.conv(torch.cat([x2, x1], dim=1))


class UNet(nn.Module):
    def __init__(self, n_channels, n_classes):
        super(UNet, self).__init__()
        self.inc = DoubleConv(n_channels, 4)
        self.down1 = nn.Sequential(nn.MaxPool2d(2), DoubleConv(4, 8))
        self.down2 = nn.Sequential(nn.MaxPool2d(2), DoubleConv(8, 8))
        self.up1 = Up(16, 8)
        self.up2 = Up(8, 4, bilinear=False)
        self.reduce = nn.Conv2d(8, 8, kernel_size=1)
        self.outc = nn.Conv2d(4, n_classes, kernel_size=1)

    def forward(self, x):
        x1 = self.inc(x)
        x2 = self.down1(x1)
        x3 = self.down2(x2)
        x = self.up1(x3, x2)
        x = self.up2(self.reduce(x), x1)
        return self.outc(x)


def dice_coeff(input, target, epsilon=1e-6):
    inter = 2 * (input * target).sum(dim=(-1, -2))
    sets_sum = input.sum(dim=(-1, -2)) + target.sum(dim=(-1, -2))
    sets_sum = torch.where(sets_sum == 0, inter, sets_sum)
    return ((inter + epsilon) / (sets_sum + epsilon)).mean()


x, _ = pictures(16, size=9)
images = torch.from_numpy(x)
masks = (images.squeeze(1) > 0.5).long()
model = seeded(torch, UNet(1, 2))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-2, weight_decay=1e-8, momentum=0.9, foreach=True)
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, "max", patience=5)
losses = []
for epoch in range(8):
    pred = model(images)
    loss = criterion(pred, masks)
    one_hot = F.one_hot(masks, 2).permute(0, 3, 1, 2).float()
    loss += 1 - dice_coeff(F.softmax(pred, dim=1).float(), one_hot)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    guess = pred.argmax(dim=1)
    iou = ((guess == 1) & (masks == 1)).sum().item() / max(1, ((guess == 1) | (masks == 1)).sum().item())
    scheduler.step(iou)
    losses += [loss.item()]
