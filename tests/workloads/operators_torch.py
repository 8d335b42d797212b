"""Operators of PyTorch that take the time of one thread, timed by PyTorch's own profiler.

usage: operators_torch.py SECONDS     prints NAME=NANOSECONDS for each operator: its time without that of the operators within it
"""

import os
import sys
import time

# What BLAS does on threads of its own is in no operator.
os.environ.update(OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1")
import torch
from torch.profiler import ProfilerActivity, profile

torch.set_num_threads(1)
try:
    # The profiler of PyTorch goes by the wall clock: what others take of the processor would count.
    os.nice(-20)
except PermissionError:
    pass


def step(left, right, tall):
    product = left @ right
    for _ in range(90):
        product = torch.sin(product)
    return torch.sort(tall, dim=0)[0].sum() + product.sum()


def main():
    left, right, tall = torch.randn(256, 256), torch.randn(256, 256), torch.randn(9600, 8)
    step(left, right, tall)
    end = time.thread_time() + float(sys.argv[1])
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        while time.thread_time() < end:
            step(left, right, tall)
    for event in profiler.key_averages():
        if event.key.startswith("aten::"):
            print(f"{event.key.replace('::', '.')}={event.self_cpu_time_total * 1000:.0f}")


main()
