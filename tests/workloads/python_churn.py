"""Threads that start, sleep and end all the time, beside forks that sleep and programs that replace them: python_churn.py ROUNDS."""

import os
import sys
import threading
import time

ROUNDS = int(sys.argv[1])


def brief():
    time.sleep(0.03)  # the line of threads


def child():
    time.sleep(0.3)  # the line of forks


def many():
    for _ in range(ROUNDS):
        threads = [threading.Thread(target=brief) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


with open(__file__) as source:
    for number, line in enumerate(source, 1):
        for what in ("threads", "forks"):
            if line.endswith(f"  # the line of {what}\n"):
                print(f"{what}_line={number}", flush=True)
starters = [threading.Thread(target=many) for _ in range(2)]
for starter in starters:
    starter.start()
children = []
for number in range(4):
    pid = os.fork()
    if pid == 0:
        child()
        if number % 2:
            os.execv(sys.executable, [sys.executable, "-c", "import time\ntime.sleep(0.3)"])
        os._exit(0)
    children.append(pid)
failed = sum(os.waitpid(pid, 0)[1] != 0 for pid in children)
for starter in starters:
    starter.join()
print(f"failed={failed}")
