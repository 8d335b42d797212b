"""Finds the programs of rsys, runs them, and says in their own words why they failed."""

import json
import os
import shutil
import subprocess
import tempfile
import warnings

# Notes that were told: each is told once.
_told = {}
# A wheel has the programs inside of the package; elsewhere the package is in PREFIX/share/rsys/python, and they are in PREFIX/bin.
_FOLDERS = ("bin", os.path.join("..", "..", "..", "..", "bin"))


class Error(RuntimeError):
    """A program of rsys is not there, or failed: the text says why, and what helps."""

    __module__ = "rsys"


def program(name):
    """The path of a program: that of the installation which this module is part of, else of the search path."""
    here = os.path.dirname(os.path.abspath(__file__))
    beside = os.pathsep.join(os.path.normpath(os.path.join(here, folder)) for folder in _FOLDERS)
    found = shutil.which(name, path=beside) or shutil.which(name)
    if found is None:
        raise Error(
            "%s is neither beside this module (%s) nor in a folder of PATH: install rsys into this environment "
            "(pip install rsys), or put the folder of its programs on PATH" % (name, here)
        )
    return found


def environment():
    """The environment for programs of ours: they are not recorded themselves where this program is, and their words have no colours."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RSYS_AGENT_")}
    # Kernels of Jupyter ask for colours.
    kept.update(NO_COLOR="1", CLICOLOR_FORCE="0", FORCE_COLOR="0")
    preloaded = kept.get("LD_PRELOAD", "").replace(":", " ").split()
    others = [path for path in preloaded if not os.path.basename(path).startswith("librsys_agent")]
    if len(others) < len(preloaded):
        kept["LD_PRELOAD"] = ":".join(others)
    return kept


def said(text):
    """Lines of a program as they are shown: without the program's name in front, and without its word for errors."""
    for start in ("rsys-report: ", "rsys-sample: ", "rsys: "):
        text = text[len(start):] if text.startswith(start) else text
    return text[len("error: "):] if text.startswith("error: ") else text


def report_lines(words):
    """What rsys-report prints, a line (bytes) at a time. Notes become warnings; a failure is an Error, an answer without anything in it is not."""
    has_answer = False
    with tempfile.TemporaryFile() as complaints:
        process = subprocess.Popen(
            [program("rsys-report")] + words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=complaints,
            env=environment(),
        )
        try:
            for line in process.stdout:
                has_answer = True
                yield line
        except BaseException:
            # Ctrl-C, or a reader that needs no more lines: it may not write again for long.
            process.kill()
            raise
        finally:
            process.stdout.close()
            code = process.wait()
        complaints.seek(0)
        lines = [line for line in complaints.read().decode("utf-8", "replace").splitlines() if line]
    # 1 is also the code of traces that hold nothing of what was asked for: the answer says so.
    is_answered = code == 0 or (code == 1 and has_answer and not any(line.startswith("rsys-report: error:") for line in lines))
    if not is_answered:
        lines = [said(line) for line in lines if not line.startswith("rsys-report: note:")]
        raise Error("\n".join(lines) or "rsys-report %s ended with code %d" % (" ".join(words), code))
    for line in lines:
        warnings.warn_explicit(said(line), UserWarning, "rsys-report", 1, registry=_told)


def report_json(words):
    """What rsys-report prints, as one object."""
    return json.loads(b"".join(report_lines(words)))
