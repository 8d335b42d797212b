"""A task that burns time until a signal ends it, and writes down what it gets.

usage: signalled.py WAY LOG     WAY: default, exit (on SIGTERM), ignore (SIGTERM), rank-1-fails (when LOG.go is there)
"""

import os
import signal
import sys
import time

way, log = sys.argv[1:3]
go = os.path.splitext(log)[0] + ".go"
file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)


def tell(text):
    os.write(file, (text + "\n").encode())


def on_term(number, frame):
    tell("TERM")
    if way == "exit":
        os._exit(3)


if way in ("exit", "ignore"):
    signal.signal(signal.SIGTERM, on_term)
while time.process_time() < 0.2:
    pass
tell("job " + os.environ["SLURM_JOB_ID"])
tell("ready")
while True:
    if way == "rank-1-fails" and os.environ["SLURM_PROCID"] == "1" and os.path.exists(go):
        sys.exit(7)
    # A step of its own: the trace grows while the task waits. A little at a time, for the profiler has seconds to end after SIGTERM, and many tasks are at once.
    end = time.process_time() + 0.005
    while time.process_time() < end:
        pass
    time.sleep(0.2)
