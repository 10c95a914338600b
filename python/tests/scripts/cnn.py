"""A convolutional classifier as tutorials write it: device, loaders, scheduler, accuracy, checkpoint."""

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, TensorDataset

from start import pictures, seeded


class Net(nn.Module):
    def __init__(self, num_classes=4):
        super(Net, self).__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 8, kernel_size=3, stride=1, padding=1),
            nn.BatchNorm2d(8),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=2, stride=2),
        )
        self.conv2 = nn.Conv2d(8, 16, 3, 1)
        self.dropout = nn.Dropout(p=0.0)
        self.fc1 = nn.Linear(16 * 2 * 2, 32)
        self.fc2 = nn.Linear(32, num_classes)

    def forward(self, x):
        x = self.features(x)
        x = F.relu(self.conv2(x))
        x = x.view(x.size(0), -1)
        x = self.dropout(F.relu(self.fc1(x)))
        return self.fc2(x)


def train(model, device, loader, optimizer, criterion):
    model.train()
    running_loss = 0.0
    for batch_idx, (data, target) in enumerate(loader):
        data, target = data.to(device, non_blocking=True), target.to(device)
        optimizer.zero_grad()
        output = model(data)
        loss = criterion(output, target)
        loss.backward()
        optimizer.step()
        running_loss += loss.item() * data.size(0)
    return running_loss / len(loader.dataset)


def test(model, device, loader):
    model.eval()
    correct, total = 0, 0
    with torch.no_grad():
        for images, labels in loader:
            images, labels = images.to(device), labels.to(device)
            outputs = model(images)
            _, predicted = torch.max(outputs.data, 1)
            total += labels.size(0)
            correct += (predicted == labels).sum().item()
    return 100.0 * correct / total


torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
x, y = pictures(96)
data = TensorDataset(torch.from_numpy(x), torch.from_numpy(y))
train_loader = DataLoader(data, batch_size=16, shuffle=False, num_workers=0, pin_memory=torch.cuda.is_available())
test_loader = DataLoader(data, batch_size=32)

model = seeded(torch, Net()).to(device)
criterion = nn.CrossEntropyLoss()
optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
scheduler = StepLR(optimizer, step_size=2, gamma=0.5)

losses = []
for epoch in range(1, 5):
    loss = train(model, device, train_loader, optimizer, criterion)
    accuracy = test(model, device, test_loader)
    scheduler.step()
    print(f"Epoch: {epoch} loss: {loss:.4f} accuracy: {accuracy:.1f}% lr: {scheduler.get_last_lr()[0]:.3f}")
    losses += [loss, accuracy]

checkpoint = {"epoch": epoch, "state_dict": model.state_dict(), "optimizer": optimizer.state_dict(), "best": accuracy}
torch.save(checkpoint, "checkpoint.pth")
again = Net().to(device)
loaded = torch.load("checkpoint.pth", map_location=device)
again.load_state_dict(loaded["state_dict"])
optimizer.load_state_dict(loaded["optimizer"])
assert loaded["epoch"] == 4 and test(again, device, test_loader) == accuracy
losses.append(sum(p.numel() for p in model.parameters() if p.requires_grad))
