"""Records a part of a program: by the rsys-sample that runs it, or by one that attaches to it."""

import argparse
import ctypes
import functools
import glob
import inspect
import itertools
import os
import shlex
import signal
import subprocess
import threading

import rsys

from ._page import page
from ._run import Error, environment, program, said
from ._tables import read

# PR_SET_PTRACER and PR_SET_PTRACER_ANY of linux/prctl.h.
_PR_SET_PTRACER = 0x59616D61
_PR_SET_PTRACER_ANY = ctypes.c_ulong(-1)
_ATTACHED = "attached to pid"

_numbers = itertools.count(1)
_lock = threading.Lock()
# What is recorded at present, for all threads of the process, and how many `with` have asked for it.
_current = None
_users = 0
_last = None


def _forget():
    """A child of a fork is not recorded as its parent is, and may have been made while another thread held the lock."""
    global _lock, _current, _users
    _lock, _current, _users = threading.Lock(), None, 0


os.register_at_fork(after_in_child=_forget)


def last():
    """The newest `profile` of this process that has ended; None if there is none. `%%rsys` makes one for each cell."""
    return _last


class profile:
    """Records what the process does within a `with`, or within a function that this decorates.

    Under rsys-sample the recording that `rsys.pause()` has stopped goes on meanwhile. Elsewhere an rsys-sample attaches to the process, with
    `options` as on its command line ("-o FOLDER -f 100 --realtime", or a list of words), and leaves at the end.
    A profile within another one is a part of it. `Error` says why a process cannot be attached to.
    """

    def __init__(self, options=""):
        words = shlex.split(options) if isinstance(options, str) else [os.fspath(word) for word in options]
        self._output, self._words = _output_of(words)
        self._recording = None

    def __enter__(self):
        global _current, _users
        with _lock:
            if _current is None:
                is_recorded_from_outside = rsys._pause is not None
                _current = _Resumed() if is_recorded_from_outside else _Attached(self._words, self._output)
            _users += 1
            self._recording = _current
        return self

    def __exit__(self, *_):
        global _current, _users, _last
        with _lock:
            if self._recording is not _current:
                return False
            _users -= 1
            if _users == 0:
                _current = None
                _last = self
                self._recording.end()
        return False

    def __call__(self, function):
        if inspect.iscoroutinefunction(function):

            @functools.wraps(function)
            async def within(*arguments, **named):
                with self:
                    return await function(*arguments, **named)

        else:

            @functools.wraps(function)
            def within(*arguments, **named):
                with self:
                    return function(*arguments, **named)

        return within

    @property
    def dir(self):
        """The folder with the traces."""
        return self._ended().folder()

    def summary(self):
        """The table that rsys-sample ends with: where the time went."""
        return "\n".join(self._ended().lines)

    def read(self):
        """The traces, to be asked: see `rsys.read`."""
        return read(self.dir)

    def __repr__(self):
        recording = self._recording
        return recording.describe() if recording else "rsys.profile(): for a `with`, or as a decorator"

    def _repr_html_(self):
        recording = self._recording
        if not isinstance(recording, _Attached) or recording.is_open:
            return None
        return page(self)

    def _ended(self):
        if self._recording is None:
            raise Error("nothing was recorded yet: a profile is for a `with`, or a decorator")
        return self._recording


class _Options(argparse.ArgumentParser):
    def error(self, message):
        raise Error("options: " + message)


def _output_of(words):
    """The folder that recordings go below, and the options that remain."""
    parser = _Options(add_help=False, allow_abbrev=False)
    parser.add_argument("-o", "--output", default="rsys-python-output")
    parser.add_argument("-q", "--quiet", action="store_true")
    own, others = parser.parse_known_args(words)
    if own.quiet:
        parser.error("without -q (--quiet): what rsys-sample says is what summary() gives")
    if own.output.endswith(".proto"):
        parser.error("-o %s: name a folder; each recording makes one of its own in it" % own.output)
    return own.output, others


class _Resumed:
    """A part of what the rsys-sample records that has started this program."""

    lines = ("recorded by the rsys-sample that runs this program: it writes the trace, and its table, when the program ends",)

    def __init__(self):
        self.was_paused = not rsys.is_recording()
        rsys.resume()

    def end(self):
        if self.was_paused:
            rsys.pause()

    def folder(self):
        raise Error("the traces are in the folder of the rsys-sample that runs this program; they are whole when it ends")

    def describe(self):
        return self.lines[0]


class _Attached:
    """A recording by an rsys-sample that attaches to this process."""

    def __init__(self, words, output):
        self.pid = os.getpid()
        self.is_open = True
        self.lines = []
        # By this name its folder is known, whoever else records into the same place.
        self._folders = "%s/*_%d.%d" % (glob.escape(os.path.abspath(output)), self.pid, next(_numbers))
        time_format = "%F_%H.%M.%S_" + self._folders.rpartition("_")[2]
        words = ["--verbose=0", "--summary=full", "-p", str(self.pid)] + words + ["-o", output, "--time-output=true", "--time-format", time_format]
        command = [program("rsys-sample")] + words
        self._permit(_PR_SET_PTRACER_ANY)
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment(),
            # Ctrl-C and "interrupt the kernel" are for this program alone.
            start_new_session=True,
        )
        self._permit(self._process.pid)
        try:
            is_attached = self._listen(_ATTACHED)
        except BaseException:
            self.end()
            raise
        if not is_attached:
            self.end()
            raise Error("rsys-sample cannot attach: " + "\n".join(self.lines))

    def end(self):
        """Has rsys-sample leave, and waits until it has written everything."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            self._listen(None)
        finally:
            self._process.stderr.close()
            self._process.wait()
            self._permit(0)
            self.is_open = False

    def folder(self):
        if self.is_open:
            raise Error("it is still recorded: the traces are whole when the `with`, or the function, has ended")
        found = sorted(glob.glob(self._folders))
        if not found:
            raise Error("there is no trace: " + "\n".join(self.lines))
        return found[-1]

    def describe(self):
        return "recorded at present" if self.is_open else "\n".join(self.lines)

    def _listen(self, end):
        """Keeps what rsys-sample says, up to a line with `end`, or to its end. Returns whether that line came."""
        for line in self._process.stderr:
            line = said(line.decode("utf-8", "replace").rstrip("\n"))
            if end is not None and end in line:
                return True
            self.lines.append(line)
        return False

    def _permit(self, tracer):
        """Where Yama lets ancestors alone trace a process (ptrace_scope 1), it may name another one."""
        try:
            with open("/proc/sys/kernel/yama/ptrace_scope") as file:
                is_restricted = file.read().strip() == "1" and os.geteuid() != 0
        except OSError:
            return
        if is_restricted:
            ctypes.CDLL(None).prctl(_PR_SET_PTRACER, tracer, 0, 0, 0)
