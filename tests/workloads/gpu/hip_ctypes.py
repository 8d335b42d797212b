"""Launches kernels from Python functions, without any module but ctypes. Arguments: HIP's library, code object, launches."""
import ctypes
import sys

library, code_object, launches = sys.argv[1], sys.argv[2], int(sys.argv[3])
hip = ctypes.CDLL(library)


def check(status):
    if status != 0:
        raise SystemExit(f"hipError {status}")


def launch(kernel, arguments):
    check(hip.hipModuleLaunchKernel(kernel, 1, 1, 1, 64, 1, 1, 0, None, arguments, None))


def train(kernel, arguments):
    for _ in range(launches):
        launch(kernel, arguments)


def download(data):
    to = ctypes.create_string_buffer(4096)
    check(hip.hipMemcpy(to, data, ctypes.c_size_t(4096), 2))


def wait():
    check(hip.hipDeviceSynchronize())


def allocate(data):
    check(hip.hipMalloc(ctypes.byref(data), ctypes.c_size_t(4096)))


def main():
    module, kernel = ctypes.c_void_p(), ctypes.c_void_p()
    check(hip.hipModuleLoad(ctypes.byref(module), code_object.encode()))
    check(hip.hipModuleGetFunction(ctypes.byref(kernel), module, b"short_kernel"))
    data = ctypes.c_void_p()
    allocate(data)
    arguments = (ctypes.c_void_p * 1)(ctypes.addressof(data))
    train(kernel, arguments)
    wait()
    download(data)
    print(f"launches={launches}")


main()
