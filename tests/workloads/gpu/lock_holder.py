"""A GPU that is idle because the thread that feeds it waits for the interpreter's lock, which another thread holds.

Arguments: HIP's library, copies. Prints the kernel's id of the thread that holds the lock.
"""
import ctypes
import sys
import threading

library, copies = sys.argv[1], int(sys.argv[2])
hip = ctypes.CDLL(library)
BYTES = 64 << 10
FROM_DEVICE = 2
is_done = False


def check(status):
    if status != 0:
        raise SystemExit(f"hipError {status}")


def grinds():
    print(f"holder={threading.get_native_id()}", flush=True)
    number = 1
    while not is_done:
        for _ in range(2000):
            number = (number * 31 + 7) % 1000003


def feeds():
    device = ctypes.c_void_p()
    check(hip.hipMalloc(ctypes.byref(device), ctypes.c_size_t(BYTES)))
    host = ctypes.create_string_buffer(BYTES)
    # ctypes gives the lock away for each call, and wants it back.
    for _ in range(copies):
        check(hip.hipMemcpy(host, device, ctypes.c_size_t(BYTES), FROM_DEVICE))


check(hip.hipInit(0))
thread = threading.Thread(target=grinds)
thread.start()
feeds()
is_done = True
thread.join()
