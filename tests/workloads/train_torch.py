"""A training loop shaped like CIFAR-10: a small convolutional net on synthetic images, with two loader workers.

usage: train_torch.py [steps]     prints each step's loss with all its digits
"""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

STEPS = int(sys.argv[1]) if len(sys.argv) > 1 else 8
BATCH = 64


class Images(Dataset):
    """Images made from their number: the same in every run and every worker."""

    def __len__(self):
        return STEPS * BATCH

    def __getitem__(self, index):
        source = torch.Generator().manual_seed(index)
        image = torch.randn(3, 32, 32, generator=source)
        for _ in range(20):  # stands in for decoding and augmenting
            image = image.flip(2) * 0.99 + image.mean() * 0.01
        return image, index % 10


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 32, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2),
        )
        self.classify = nn.Sequential(nn.Linear(64 * 8 * 8, 128), nn.ReLU(), nn.Linear(128, 10))

    def forward(self, images):
        return self.classify(self.features(images).flatten(1))


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    loss_of = nn.CrossEntropyLoss()
    for step, (images, labels) in enumerate(DataLoader(Images(), batch_size=BATCH, num_workers=2)):
        optimizer.zero_grad()
        loss = loss_of(model(images), labels)
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item()!r}", flush=True)


if __name__ == "__main__":
    main()
