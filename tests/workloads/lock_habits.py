"""Threads that share the interpreter's lock well or badly. Arguments: habit, seconds.

busy: a thread computes in Python while the main thread makes many short system calls, for each of which it gives the lock up and wants it back.
busy-two: two such threads, and a main thread that compresses.
calm: threads that wait for work in a queue and have little of it, and a main thread that waits for them.
"""
import os
import queue
import sys
import threading
import time
import zlib

habit, seconds = sys.argv[1], float(sys.argv[2])
end = time.monotonic() + seconds


def grinds():
    number = 1
    while time.monotonic() < end:
        for _ in range(2000):
            number = (number * 31 + 7) % 1000003
    return number


def writes_log(file):
    os.write(file, b"line")


def compresses(data):
    return zlib.compress(data, 1)


def busy():
    thread = threading.Thread(target=grinds)
    thread.start()
    file = os.open("/dev/null", os.O_WRONLY)
    while time.monotonic() < end:
        writes_log(file)
    thread.join()


def busy_two():
    threads = [threading.Thread(target=grinds) for _ in range(2)]
    for thread in threads:
        thread.start()
    data = bytes(range(256)) * 200
    while time.monotonic() < end:
        compresses(data)
    for thread in threads:
        thread.join()


def calm():
    work = queue.Queue()

    def serves():
        while work.get() is not None:
            sum(range(1000))

    threads = [threading.Thread(target=serves) for _ in range(3)]
    for thread in threads:
        thread.start()
    while time.monotonic() < end:
        work.put(1)
        time.sleep(0.01)
    for _ in threads:
        work.put(None)
    for thread in threads:
        thread.join()


{"busy": busy, "busy-two": busy_two, "calm": calm}[habit]()
