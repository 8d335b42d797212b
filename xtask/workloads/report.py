"""What the Python programs of the benchmark tell it: the same line as report.h."""

import sys
import time


def begin():
    return time.process_time(), time.time()


def end(started):
    cpu, wall = time.process_time(), time.time()
    with open("/proc/self/status") as status:
        rss_kb = next(line.split()[1] for line in status if line.startswith("VmHWM:"))
    print(
        f"cpu={cpu - started[0]:.9f} cpu_total={cpu:.9f} rss_kb={rss_kb} "
        f"wall={wall - started[1]:.9f} ended={time.time():.9f}"
    )
    sys.stdout.flush()
