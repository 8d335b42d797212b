"""Waits as Python programs do: time.sleep, a queue, a lock, a child process. Prints `NAME=seconds` for each."""

import queue
import subprocess
import threading
import time


def in_sleep():
    time.sleep(0.4)


def in_queue():
    items = queue.Queue()
    threading.Thread(target=lambda: (time.sleep(0.3), items.put(1)), name="giver").start()
    items.get()


def in_lock():
    lock = threading.Lock()
    lock.acquire()
    threading.Thread(target=lambda: (time.sleep(0.2), lock.release())).start()
    lock.acquire(timeout=60)


def in_child():
    subprocess.run(["/bin/sleep", "0.3"], check=True)


for wait in (in_sleep, in_queue, in_lock, in_child):
    start = time.monotonic()
    wait()
    print(f"{wait.__name__}={time.monotonic() - start:.6f}")
