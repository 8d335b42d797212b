"""Threads that wait at one line each, in many ways: python_waits.py SECONDS [BURN]. The kernel knows each by the name of its function, and
`NAME_line=N` says where it waits, `NAME_ns=N` how long it was neither running nor waiting for a processor there, by its own clocks. Behind them, two
threads that want the interpreter's lock all the time, for BURN seconds of CPU time (by default SECONDS)."""

import asyncio
import ctypes
import queue
import select
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

SECONDS = float(sys.argv[1])
BURN = float(sys.argv[2]) if len(sys.argv) > 2 else SECONDS
LIBRARY = ctypes.CDLL(None)
items = queue.Queue()
lock = threading.Lock()
condition = threading.Condition()
near, far = socket.socketpair()
silent, _still = socket.socketpair()
finished = []
waited = {}


def in_sleep():
    time.sleep(SECONDS)  # waits: in_sleep


def in_naps():
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        time.sleep(0.02)  # waits: in_naps


def in_queue():
    items.get()  # waits: in_queue


def in_lock():
    lock.acquire()  # waits: in_lock


def in_condition():
    with condition:
        condition.wait(60)  # waits: in_condition


def in_recv():
    near.recv(1)  # waits: in_recv


def in_select():
    select.select([silent], [], [], SECONDS)  # waits: in_select


def in_child():
    subprocess.run(["sleep", str(SECONDS)], check=True)  # waits: in_child


def in_asyncio():
    asyncio.run(asyncio.sleep(SECONDS))  # waits: in_asyncio


def in_ctypes():
    LIBRARY.usleep(int(SECONDS * 1e6))  # waits: in_ctypes


def in_callback():
    numbers = (ctypes.c_int * 2)()
    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    left = [SECONDS]

    def compare(_one, _other):
        time.sleep(left.pop() if left else 0)  # waits: in_callback
        return 0

    LIBRARY.qsort(numbers, 2, ctypes.sizeof(ctypes.c_int), kind(compare))


def in_pool():
    with ThreadPoolExecutor(1) as pool:
        pool.submit(in_worker).result()  # waits: in_pool


def in_worker():
    call_myself("in_worker")
    begin = begun()
    time.sleep(SECONDS)  # waits: in_worker
    ended("in_worker", begin)


def in_burn():
    while not finished: pass  # waits: in_burn


def in_turns():
    while not finished: pass  # waits: in_turns


def call_myself(name):
    with open(f"/proc/self/task/{threading.get_native_id()}/comm", "w") as file:
        file.write(name)


def away_ns():
    """A clock that stands while this thread runs."""
    return time.monotonic_ns() - time.thread_time_ns()


def delay_ns():
    """How long this thread has waited for a processor."""
    with open("/proc/thread-self/schedstat") as file:
        return int(file.read().split()[1])


# To read the delay may mean to wait for the interpreter's lock: that is left out at both ends.
def begun():
    delay = delay_ns()
    return away_ns() - delay


def ended(name, begin):
    now = away_ns()
    waited[name] = now - delay_ns() - begin


def start(wait):
    def run():
        call_myself(wait.__name__)
        begin = begun()
        wait()
        ended(wait.__name__, begin)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


with open(__file__) as source:
    for number, line in enumerate(source, 1):
        _, mark, name = line.rstrip().partition("  # waits: ")
        if mark:
            print(f"{name}_line={number}")
lock.acquire()
waits = [
    in_sleep, in_naps, in_queue, in_lock, in_condition, in_recv, in_select, in_child, in_asyncio, in_ctypes, in_callback, in_pool,
]
threads = [start(wait) for wait in waits]
time.sleep(SECONDS)
items.put(1)
lock.release()
with condition:
    condition.notify()
far.send(b"x")
for thread in threads:
    thread.join()
# By CPU time: on a busy machine they would hardly meet.
begin = time.process_time()
threads = [start(wait) for wait in (in_burn, in_turns)]
while time.process_time() - begin < BURN:
    time.sleep(0.05)
finished.append(True)
for thread in threads:
    thread.join()
for name, ns in waited.items():
    print(f"{name}_ns={ns}")
