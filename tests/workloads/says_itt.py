# Tasks, overlapping tasks and pauses by Intel's module `ittapi`, which carries ITT's own static part.
import sys
import threading

import ittapi

domain = ittapi.domain("tests.itt")


def work(depth):
    with ittapi.task("step", domain=domain):
        if depth:
            work(depth - 1)


for _ in range(10):
    work(2)

first = ittapi.overlapped_task("first", domain=domain)
second = ittapi.overlapped_task("second", domain=domain)
first.begin()
second.begin()
first.end()
second.end()

for number in range(int(sys.argv[1])):
    with ittapi.task(f"name {number}", domain=domain):
        pass

ittapi.pause()
with ittapi.task("in a pause", domain=domain):
    pass
ittapi.resume()


def other():
    ittapi.thread_set_name("named by itt")
    with ittapi.task("in a thread", domain=domain):
        pass


thread = threading.Thread(target=other)
thread.start()
thread.join()
print("done")
