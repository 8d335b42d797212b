"""A function that PyTorch compiles to C++ (`torch.compile`), with the names and lines of what was made, run for some CPU time.

usage: torch_compiled.py FOLDER SECONDS     keeps what was made in FOLDER; prints runs=N, and cpu_ns=N, the thread's CPU time in them
"""

import os
import sys
import time

folder = sys.argv[1]
compiler = os.path.join(folder, "compiler")
with open(compiler, "w") as script:
    script.write('#!/bin/sh\nexec g++ -g "$@"\n')
os.chmod(compiler, 0o755)
os.environ.update(
    CXX=compiler,
    OMP_NUM_THREADS="1",
    TORCHINDUCTOR_CACHE_DIR=os.path.join(folder, "made"),
    TORCHINDUCTOR_CPP_ENABLE_KERNEL_PROFILE="1",
)
import torch


def curve(left, right):
    value = torch.sin(left) * torch.cos(right)
    for _ in range(6):
        value = torch.tanh(value + left)
    return value.sum(dim=1)


def main():
    torch.set_num_threads(1)
    compiled = torch.compile(curve)
    left, right = torch.randn(500, 1000), torch.randn(500, 1000)
    assert torch.allclose(compiled(left, right), curve(left, right), atol=1e-3)
    begin = time.thread_time_ns()
    runs = 1
    while time.thread_time_ns() - begin < float(sys.argv[2]) * 1e9:
        compiled(left, right)
        runs += 1
    print(f"runs={runs}")
    print(f"cpu_ns={time.thread_time_ns() - begin}")


main()
