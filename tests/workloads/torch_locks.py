"""PyTorch with all that takes locks: its pools of threads, backward passes, threads of the program's own, and loaders in processes."""
import threading

import torch
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(7)
torch.set_num_threads(2)
sums = {}


def trains(name):
    weight = torch.ones(64, 64, requires_grad=True)
    for _ in range(20):
        loss = (weight @ torch.ones(64, 64)).sum() / 4096
        loss.backward()
        with torch.no_grad():
            weight -= 0.01 * weight.grad
            weight.grad.zero_()
    sums[name] = round(float(weight.sum()), 1)


threads = [threading.Thread(target=trains, args=(name,)) for name in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
data = TensorDataset(torch.arange(256, dtype=torch.float32))
loaded = sum(float(batch.sum()) for (batch,) in DataLoader(data, batch_size=16, num_workers=2))
print(sorted(sums.items()), loaded)
