"""A large program with a library of hundreds of megabytes and threads: large.py STAMP_FILE. Writes CLOCK_BOOTTIME into the file
again and again while it works; prints `ready PID` when it works."""

import mmap
import os
import struct
import sys
import threading
import time

import torch

torch.set_num_threads(1)
with open(sys.argv[1], "wb") as file:
    file.write(bytes(8))
with open(sys.argv[1], "r+b") as file:
    stamp = mmap.mmap(file.fileno(), 8)


def work():
    layer = torch.nn.Conv2d(3, 16, 3)
    images = torch.randn(4, 3, 32, 32)
    while True:
        layer(images).relu().sum().backward()
        struct.pack_into("q", stamp, 0, time.clock_gettime_ns(time.CLOCK_BOOTTIME))


threads = [threading.Thread(target=work, daemon=True) for _ in range(3)]
for thread in threads:
    thread.start()
while struct.unpack_from("q", stamp)[0] == 0:
    time.sleep(0.01)
print("ready", os.getpid(), flush=True)
threads[0].join()
