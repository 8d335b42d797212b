"""Keeps the daemons of a small cluster, and takes all of it away when its standard input ends.

usage: slurm_keeper.py COMMAND-LINE...     each argument is a command, run by the shell

It is the parent of every process that loses its own, as init would be: a task that nobody waits for must not stay.
"""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time

PR_SET_CHILD_SUBREAPER = 36


def children():
    try:
        with open(f"/proc/{os.getpid()}/task/{os.getpid()}/children") as file:
            return [int(word) for word in file.read().split()]
    except OSError:
        return []


def take_away():
    sys.stdin.buffer.read()
    for number, seconds in ((signal.SIGTERM, 1.5), (signal.SIGKILL, 10.0)):
        deadline = time.monotonic() + seconds
        while children() and time.monotonic() < deadline:
            for pid in children():
                try:
                    os.kill(pid, number)
                except OSError:
                    pass
            time.sleep(0.05)
    os._exit(0)


def main():
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1)
    for line in sys.argv[1:]:
        subprocess.Popen(["/bin/sh", "-c", "exec " + line], stdin=subprocess.DEVNULL, start_new_session=True)
    threading.Thread(target=take_away, daemon=True).start()
    while True:
        try:
            os.wait()
        except ChildProcessError:
            time.sleep(0.05)


main()
