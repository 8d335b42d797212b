"""Waits for a kernel and many others behind it, until an alarm ends the process; it depends on the machine whether they ever end.

Arguments: HIP's library, code object.
"""
import ctypes
import sys

hip = ctypes.CDLL(sys.argv[1])
SHORT_KERNELS, PATIENCE_S = 1000, 4


def check(status):
    if status != 0:
        raise SystemExit(f"hipError {status}")


def launch(kernel, arguments):
    check(hip.hipModuleLaunchKernel(kernel, 1, 1, 1, 64, 1, 1, 0, None, arguments, None))


def wait():
    check(hip.hipDeviceSynchronize())


def main():
    module, kernels = ctypes.c_void_p(), {}
    check(hip.hipModuleLoad(ctypes.byref(module), sys.argv[2].encode()))
    for name in ("short_kernel", "long_kernel"):
        kernels[name] = ctypes.c_void_p()
        check(hip.hipModuleGetFunction(ctypes.byref(kernels[name]), module, name.encode()))
    data = ctypes.c_void_p()
    check(hip.hipMalloc(ctypes.byref(data), ctypes.c_size_t(4096)))
    arguments = (ctypes.c_void_p * 1)(ctypes.addressof(data))
    for _ in range(20):
        launch(kernels["short_kernel"], arguments)
    wait()
    ctypes.CDLL(None).alarm(PATIENCE_S)
    launch(kernels["long_kernel"], arguments)
    for _ in range(SHORT_KERNELS):
        launch(kernels["short_kernel"], arguments)
    wait()


main()
