"""Threads that run one after the other, each started by the one before as it ends: python_relay.py RUNNERS SECONDS. There are
always two threads, never the same, and each waits SECONDS. The kernel knows them as runner-0, runner-1, ..."""

import sys
import threading
import time

RUNNERS = int(sys.argv[1])
SECONDS = float(sys.argv[2])
over = threading.Event()


def run(number):
    with open(f"/proc/self/task/{threading.get_native_id()}/comm", "w") as file:
        file.write(f"runner-{number}")
    time.sleep(SECONDS)
    if number + 1 == RUNNERS:
        over.set()
        return
    threading.Thread(target=run, args=(number + 1,)).start()


threading.Thread(target=run, args=(0,)).start()
over.wait()
