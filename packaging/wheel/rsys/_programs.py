"""Runs a program of this package in the place of the interpreter.

The program is to see what it would see without us: environment and signals as they were when the interpreter began.
"""

import os
import signal
import sys

_BIN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "bin")


def _environment():
    # In the C locale Python sets LC_CTYPE (PEP 538); the kernel still has what we were started with.
    try:
        with open("/proc/self/environ", "rb") as file:
            block = file.read()
    except OSError:
        return os.environb
    pairs = (entry.partition(b"=") for entry in block.split(b"\0"))
    return {name: value for name, equals, value in pairs if name and equals}


def run(program, words, called=None):
    """Becomes `program` with these arguments, under another name if one is given. Does not return."""
    # Python ignores these two, and what is ignored stays so in programs that are started.
    for name in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(name, signal.SIG_DFL)
    os.execve(os.path.join(_BIN, program), [called or program] + words, _environment())


def sample():
    run("rsys-sample", sys.argv[1:])


def report():
    run("rsys-report", sys.argv[1:])


def avail():
    run("rsys-avail", sys.argv[1:])
