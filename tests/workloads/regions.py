"""Regions of a Python program by the module rsys."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../user/python"))
import rsys


@rsys.range("decorated", kind="function")
def work(number):
    return number + 1


with rsys.range("step", n=3, loss=0.25, big=2**70, file="a b"):
    assert work(1) == 2 and work.__name__ == "work"
    rsys.counter("queue", 1.5)
    rsys.mark("a mark", n=-1)
rsys.progress()
print(f"recording={int(rsys.is_recording())}")
rsys.pause()
with rsys.range("in a pause"):
    pass
rsys.resume()
try:
    with rsys.range("raises"):
        raise KeyError
except KeyError:
    pass
