"""A thread runs a sub-interpreter, which sleeps in `inner`, while the thread that made it sleeps in `outer`."""

import threading
import time

try:
    import _xxsubinterpreters as interpreters
except ImportError:
    import _interpreters as interpreters

SCRIPT = """
import time


def inner():
    time.sleep(0.8)


inner()
"""


def enter(number):
    run = getattr(interpreters, "run_string", None) or interpreters.exec
    run(number, SCRIPT)


def outer():
    time.sleep(0.5)


thread = threading.Thread(target=enter, args=(interpreters.create(),))
thread.start()
outer()
thread.join()
