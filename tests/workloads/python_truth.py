"""Functions that say how much CPU time they took, each in another way of running Python.

usage: python_truth.py SECONDS [part ...]

prints `part=nanoseconds` of CPU time for each part, and `line NUMBER=nanoseconds` for lines that were measured on their own
"""

import asyncio
import ctypes
import sys
import threading
import time
import zlib

SECONDS = float(sys.argv[1])
LIBC = ctypes.CDLL(None)


def until(seconds):
    """Times at which CPU time is left, and nothing else."""
    end = time.thread_time() + seconds
    while time.thread_time() < end:
        yield


def pure():
    total = 0
    for _ in until(SECONDS):
        for number in range(20_000):
            total += number * number % 7
    return total


def native():
    block = bytes(1 << 20)
    for _ in until(SECONDS):
        zlib.crc32(block)


def slow_key(number):
    total = number
    for step in range(60):
        total ^= step * number
    return total


def sorting():
    for _ in until(SECONDS):
        sorted(range(2000), key=slow_key)


def compare(left, right):
    total = 0
    for step in range(40):
        total += step
    return left[0] - right[0]


def foreign():
    """The C library calls Python back."""
    pointer = ctypes.POINTER(ctypes.c_int)
    callback = ctypes.CFUNCTYPE(ctypes.c_int, pointer, pointer)(compare)
    for _ in until(SECONDS):
        numbers = (ctypes.c_int * 256)(*[n * 7919 % 256 for n in range(256)])
        LIBC.qsort(numbers, 256, ctypes.sizeof(ctypes.c_int), callback)


def squares(count):
    for number in range(count):
        total = 0
        for step in range(30):
            total += step * number
        yield total


def generator():
    for _ in until(SECONDS):
        for _ in squares(400):
            pass


def fibonacci(number):
    return number if number < 2 else fibonacci(number - 1) + fibonacci(number - 2)


def recursion():
    for _ in until(SECONDS):
        fibonacci(15)


def risky(number):
    if number % 2:
        raise ValueError(number)
    return number


def exceptions():
    for _ in until(SECONDS):
        for number in range(500):
            try:
                risky(number)
            except ValueError:
                pass


async def step(number):
    total = 0
    for value in range(3000):
        total += value ^ number
    await asyncio.sleep(0)
    return total


async def gather():
    for _ in until(SECONDS):
        await asyncio.gather(*(step(number) for number in range(10)))


def asynchronous():
    asyncio.run(gather())


class Méthode:
    """A name that is not ASCII."""

    def größe(self):
        total = 0
        for _ in until(SECONDS):
            for number in range(20_000):
                total += number
        return total


def names():
    Méthode().größe()


def here():
    return sys._getframe(1).f_lineno


def lines():
    """Two lines whose shares are as three to one."""
    heavy = light = 0
    for number, _ in enumerate(until(3 * SECONDS)):
        # Rounds of equal length could keep step with the samples.
        count = 60_000 + number * 37_991 % 80_000
        start = time.thread_time_ns()
        sum(range(3 * count)); heavy_line = here()
        between = time.thread_time_ns()
        sum(range(count)); light_line = here()
        end = time.thread_time_ns()
        heavy += between - start
        light += end - between
    print(f"line {heavy_line}={heavy}")
    print(f"line {light_line}={light}")


def threaded(name):
    start = time.thread_time_ns()
    pure()
    # One write: two threads may get here at once.
    sys.stdout.write(f"{name}={time.thread_time_ns() - start}\n")


def threads():
    workers = [
        threading.Thread(target=threaded, args=(name,), name=f"{name} worker of the pool")
        for name in ("left", "right")
    ]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


PARTS = (
    pure, native, sorting, foreign, generator, recursion, exceptions, asynchronous, names, lines, threads,
)


def main():
    chosen = sys.argv[2:]
    for part in PARTS:
        if not chosen or part.__name__ in chosen:
            start = time.thread_time_ns()
            part()
            print(f"{part.__name__}={time.thread_time_ns() - start}")


main()
