"""roctx by ctypes: a library that only this program has opened."""

import ctypes
import sys
import threading

library = ctypes.CDLL(sys.argv[1])
library.roctxRangeStartA.restype = ctypes.c_uint64
library.roctxRangeStop.argtypes = [ctypes.c_uint64]


def step(number):
    assert library.roctxRangePushA(b"step %d" % number) == 0
    assert library.roctxRangePushA(b"forward") == 1
    library.roctxMarkA(b"loss")
    assert library.roctxRangePop() == 1
    assert library.roctxRangePop() == 0


for number in range(10):
    step(number)
worker = threading.Thread(target=step, args=(10,))
worker.start()
worker.join()
first = library.roctxRangeStartA(b"epoch")
second = library.roctxRangeStartA(b"overlapping")
library.roctxRangeStop(first)
library.roctxRangeStop(second)
assert library.roctxRangePop() == -1
