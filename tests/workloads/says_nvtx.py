# Ranges, marks, payloads and domains by NVIDIA's module `nvtx`, which carries NVTX itself.
import sys
import threading

import nvtx


@nvtx.annotate("step", domain="tests.nvtx", payload=17)
def work(depth):
    if depth:
        work(depth - 1)


for _ in range(10):
    work(2)

with nvtx.annotate("without a domain", payload=2.5):
    nvtx.mark("now")

first = nvtx.start_range("first", domain="tests.nvtx")
second = nvtx.start_range("second", domain="tests.nvtx")
nvtx.end_range(first)
nvtx.end_range(second)

for number in range(int(sys.argv[1])):
    with nvtx.annotate(f"name {number}"):
        pass


def other():
    with nvtx.annotate("in a thread"):
        pass


thread = threading.Thread(target=other)
thread.start()
thread.join()
print("done")
