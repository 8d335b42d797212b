"""The programs of the package rsys by the names that they have in rocprofiler-systems and omnitrace."""

import sys

from rsys import _programs


def rocprof_sys_sample():
    _programs.run("rsys-sample", sys.argv[1:], "rocprof-sys-sample")


def rocprof_sys_avail():
    _programs.run("rsys-avail", sys.argv[1:], "rocprof-sys-avail")


def omnitrace_sample():
    _programs.run("rsys-sample", sys.argv[1:], "omnitrace-sample")


def omnitrace_avail():
    _programs.run("rsys-avail", sys.argv[1:], "omnitrace-avail")
