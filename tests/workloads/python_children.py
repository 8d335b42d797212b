"""Processes of multiprocessing, each way of starting them: python_children.py SECONDS

prints `fork=nanoseconds` and so on, of CPU time in the child's function
"""

import multiprocessing
import sys
import time


def burn(seconds):
    end = time.process_time() + seconds
    value = 1
    while time.process_time() < end:
        for number in range(5000):
            value = value * 31 % 65537
    return value


def by_fork(seconds):
    burn(seconds)


def by_spawn(seconds):
    burn(seconds)


def main():
    seconds = float(sys.argv[1])
    for way, function in (("fork", by_fork), ("spawn", by_spawn)):
        child = multiprocessing.get_context(way).Process(target=function, args=(seconds,))
        child.start()
        child.join()
        print(f"{way}={child.exitcode}")


if __name__ == "__main__":
    main()
