"""A process with several hundred libraries: imports PyTorch and trains a small net for a few steps."""

import report

started = report.begin()

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
net = nn.Sequential(
    nn.Conv2d(3, 16, 5, padding=2), nn.ReLU(), nn.MaxPool2d(4), nn.Flatten(), nn.Linear(16 * 8 * 8, 10)
)
optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
loss_of = nn.CrossEntropyLoss()
for _ in range(12):
    optimizer.zero_grad()
    loss_of(net(torch.randn(32, 3, 32, 32)), torch.randint(10, (32,))).backward()
    optimizer.step()
report.end(started)
