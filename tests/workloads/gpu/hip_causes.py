"""A GPU that is idle for known reasons, each in a function of its own, without any module but ctypes.

Arguments: HIP's library, code object, rounds, milliseconds. Prints times as hip_causes.cpp does.
"""
import ctypes
import sys
import threading
import time

library, code_object, rounds, milliseconds = sys.argv[1], sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
hip = ctypes.CDLL(library)
LARGE = 32 << 20
FROM_DEVICE = 2


def now_ns():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


class Delayed:
    """Says how long this thread waited for a processor meanwhile."""

    def __init__(self, name):
        self.name = name

    def __enter__(self):
        self.before = delay_ns()

    def __exit__(self, *_):
        print("delayed", self.name, delay_ns() - self.before)


def delay_ns():
    with open("/proc/thread-self/schedstat") as file:
        return int(file.read().split()[1])


def check(status):
    if status != 0:
        raise SystemExit(f"hipError {status}")


def launches(kernel, arguments):
    with Delayed("short_kernel"):
        begin = now_ns()
        check(hip.hipModuleLaunchKernel(kernel, 1, 1, 1, 64, 1, 1, 0, None, arguments, None))
        print("launched short_kernel", begin)
    with Delayed("waited"):
        begin = now_ns()
        check(hip.hipDeviceSynchronize())
        print("waited", begin, now_ns())


def computes():
    end = time.thread_time_ns() + int(milliseconds * 1e6)
    while time.thread_time_ns() < end:
        sum(range(2_000))


def sleeps():
    time.sleep(milliseconds / 1000)


def keeps(lock, wanted, taken):
    while True:
        wanted.acquire()
        with lock:
            taken.release()
            time.sleep(milliseconds / 1000)


def locks(lock):
    lock.acquire()
    lock.release()


def copies(host, device):
    check(hip.hipMemcpy(host, device, ctypes.c_size_t(LARGE), FROM_DEVICE))


def held(reason, function, *arguments):
    with Delayed(reason):
        begin = now_ns()
        function(*arguments)
        print("span", reason, begin, now_ns())


def main():
    module, kernel = ctypes.c_void_p(), ctypes.c_void_p()
    check(hip.hipModuleLoad(ctypes.byref(module), code_object.encode()))
    check(hip.hipModuleGetFunction(ctypes.byref(kernel), module, b"short_kernel"))
    data, large = ctypes.c_void_p(), ctypes.c_void_p()
    check(hip.hipMalloc(ctypes.byref(data), ctypes.c_size_t(4096)))
    check(hip.hipMalloc(ctypes.byref(large), ctypes.c_size_t(LARGE)))
    host = ctypes.create_string_buffer(LARGE)
    lock, wanted, taken = threading.Lock(), threading.Semaphore(0), threading.Semaphore(0)
    threading.Thread(target=keeps, args=(lock, wanted, taken), daemon=True).start()
    arguments = (ctypes.c_void_p * 1)(ctypes.addressof(data))
    held("copies", copies, host, large)
    for _ in range(rounds):
        launches(kernel, arguments)
        held("computes", computes)
        launches(kernel, arguments)
        held("sleeps", sleeps)
        launches(kernel, arguments)
        wanted.release()
        taken.acquire()
        held("locks", locks, lock)
        launches(kernel, arguments)
        held("copies", copies, host, large)
    launches(kernel, arguments)


main()
