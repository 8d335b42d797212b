# Runs until it is killed: two threads compute, one sleeps again and again. Prints `ready PID`.
import os
import threading
import time


def computes():
    while True:
        total = 0
        for number in range(20000):
            total += number * number


def sleeps():
    while True:
        time.sleep(0.2)


for routine in (computes, computes, sleeps):
    threading.Thread(target=routine, daemon=True).start()
print("ready", os.getpid(), flush=True)
threading.Event().wait()
