"""A main thread that takes each piece of work from its loader: loader_loop.py HOW SECONDS.

naps: a thread prepares pieces, and sleeps for each of them.
computes: a thread prepares them with the processor.
workers: two processes do.
fast: a thread prepares them in no time, so that the main thread never waits for long.
"""
import multiprocessing
import queue
import sys
import threading
import time

how, seconds = sys.argv[1], float(sys.argv[2])
end = time.monotonic() + seconds


def spin(seconds):
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass


def prepare_asleep():
    time.sleep(0.04)  # waits: prepare_asleep


def prepare_busy():
    spin(0.02)


def prepare_at_once():
    pass


def produce(items, prepare):
    while time.monotonic() < end:
        prepare()
        items.put(1)
    items.put(None)


def train_step():
    spin(0.03 if how == "fast" else 0.001)


def train(items, producers):
    while producers:
        if items.get() is None:
            producers -= 1
        else:
            train_step()


if how == "workers":
    items = multiprocessing.Queue(4)
    makers = [multiprocessing.Process(target=produce, args=(items, prepare_asleep)) for _ in range(2)]
else:
    items = queue.Queue(4)
    prepare = {"naps": prepare_asleep, "computes": prepare_busy, "fast": prepare_at_once}[how]
    makers = [threading.Thread(target=produce, args=(items, prepare))]
for maker in makers:
    maker.start()
train(items, len(makers))
for maker in makers:
    maker.join()
