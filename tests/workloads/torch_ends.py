"""Nanoseconds for an operator of PyTorch that has almost nothing to do: the sign of eight numbers is turned, in place, which is one operator.

usage: torch_ends.py ROUNDS     the best of 20 parts of ROUNDS rounds, as ns=...
"""

import sys
import time

import torch


def main():
    torch.set_num_threads(1)
    rounds = range(int(sys.argv[1]))
    numbers = torch.ones(8)
    best = float("inf")
    with torch.no_grad():
        for _ in range(20):
            begin = time.perf_counter_ns()
            for _ in rounds:
                numbers.neg_()
            best = min(best, (time.perf_counter_ns() - begin) / len(rounds))
    print(f"ns={best:.1f}")


main()
