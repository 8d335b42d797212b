"""Distributed training over gloo: each rank trains the same net on its part of synthetic images, with two loader workers.

usage: train_ddp.py STEPS FILE     ranks meet in FILE; each prints a checksum of the model at the end
"""

import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

STEPS = int(sys.argv[1])
BATCH = 32


class Images(Dataset):
    def __init__(self, ranks):
        self.ranks = ranks

    def __len__(self):
        return STEPS * BATCH * self.ranks

    def __getitem__(self, index):
        source = torch.Generator().manual_seed(index)
        image = torch.randn(3, 32, 32, generator=source)
        for _ in range(20):  # stands in for decoding and augmenting
            image = image.flip(2) * 0.99 + image.mean() * 0.01
        return image, index % 10


def main():
    rank, ranks = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
    dist.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=rank, world_size=ranks)
    torch.manual_seed(0)
    torch.set_num_threads(1)
    net = nn.Sequential(nn.Conv2d(3, 16, 5), nn.ReLU(), nn.MaxPool2d(4), nn.Flatten(), nn.Linear(16 * 7 * 7, 10))
    model = nn.parallel.DistributedDataParallel(net)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = Images(ranks)
    loader = DataLoader(data, batch_size=BATCH, num_workers=2, sampler=DistributedSampler(data, ranks, rank))
    for images, labels in loader:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
    print(f"model {sum(p.double().sum() for p in net.parameters()).item()!r}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
