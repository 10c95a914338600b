"""A Siamese network with a contrastive loss, and the same embedding with InfoNCE and triplets."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from start import pictures, seeded


class SiameseNetwork(nn.Module):
    def __init__(self):
        super(SiameseNetwork, self).__init__()
        self.cnn1 = nn.Sequential(nn.ReflectionPad2d(1), nn.Conv2d(1, 4, kernel_size=3), nn.ReLU(inplace=True), nn.BatchNorm2d(4))
        self.fc1 = nn.Sequential(nn.Linear(4 * 8 * 8, 16), nn.ReLU(inplace=True), nn.Linear(16, 4))

    def forward_once(self, x):
        output = self.cnn1(x)
        output = output.view(output.size()[0], -1)
        return self.fc1(output)

    def forward(self, input1, input2):
        return self.forward_once(input1), self.forward_once(input2)


class ContrastiveLoss(torch.nn.Module):
    def __init__(self, margin=2.0):
        super(ContrastiveLoss, self).__init__()
        self.margin = margin

    def forward(self, output1, output2, label):
        distance = F.pairwise_distance(output1, output2, keepdim=True)
        return torch.mean((1 - label) * torch.pow(distance, 2) + label * torch.pow(torch.clamp(self.margin - distance, min=0.0), 2))


x, y = pictures(64)
x, y = torch.from_numpy(x), torch.from_numpy(y)
net, criterion = seeded(torch, SiameseNetwork()), ContrastiveLoss()
optimizer = torch.optim.Adam(net.parameters(), lr=0.005)
losses = []
for epoch in range(8):
    order = torch.arange(64).roll(epoch + 1)
    label = (y != y[order]).float().unsqueeze(1)
    optimizer.zero_grad()
    loss = criterion(*net(x, x[order]), label)
    loss.backward()
    optimizer.step()
    losses.append(loss.item())

mask = torch.eye(64, dtype=torch.bool)
for epoch in range(6):
    z = F.normalize(net.forward_once(x), dim=1)
    similarity = (z @ z.T / 0.5).masked_fill(mask, float("-inf"))
    positive = (y[:, None] == y[None, :]) & ~mask
    log_prob = similarity - torch.logsumexp(similarity, dim=1, keepdim=True)
    loss = -(log_prob.masked_fill(~positive, 0).sum(1) / positive.sum(1).clamp(min=1)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())

triplet = nn.TripletMarginLoss(margin=1.0, p=2)
anchor, same, other = x[:16], x[16:32], x[32:48]
losses.append(triplet(*(net.eval().forward_once(t) for t in (anchor, same, other))).item())
