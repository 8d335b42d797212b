"""Runs code in a second interpreter of the same process, on the same thread. Prints `subinterpreter=1`, or 0 without one."""

import sys

SCRIPT = """
import time
def inner():
    end = time.thread_time() + 0.4
    value = 1
    while time.thread_time() < end:
        for number in range(5000):
            value = value * 31 % 65537
inner()
"""


def outer():
    try:
        if sys.version_info >= (3, 13):
            import _interpreters as interpreters
        else:
            import _xxsubinterpreters as interpreters
    except ImportError:
        print("subinterpreter=0")
        return
    interpreter = interpreters.create()
    if sys.version_info >= (3, 13):
        interpreters.exec(interpreter, SCRIPT)
    else:
        interpreters.run_string(interpreter, SCRIPT)
    interpreters.destroy(interpreter)
    print("subinterpreter=1")


outer()
