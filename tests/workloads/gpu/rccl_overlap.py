"""A rank whose even steps sum over all ranks while a kernel runs, and whose odd steps wait for the kernel first; each step is a range of roctx.

Arguments: HIP's library, RCCL's library, code object, rank, ranks, file for the communicator's id, steps.
"""
import ctypes
import os
import sys
import time

hip, rccl = ctypes.CDLL(sys.argv[1]), ctypes.CDLL(sys.argv[2])
code_object, rank, ranks, path, steps = sys.argv[3], int(sys.argv[4]), int(sys.argv[5]), sys.argv[6], int(sys.argv[7])
COUNT, FLOAT, SUM, NON_BLOCKING = 4096, 7, 0, 1
# The profiler's, as there is no library of roctx here.
roctx = ctypes.CDLL(None)


class UniqueId(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 128)]


def check(status):
    if status != 0:
        raise SystemExit(f"error {status}")


def shared_id():
    unique = UniqueId()
    if rank == 0:
        check(rccl.ncclGetUniqueId(ctypes.byref(unique)))
        with open(path + ".draft", "wb") as file:
            file.write(ctypes.string_at(ctypes.byref(unique), 128))
        os.rename(path + ".draft", path)
    while not os.path.exists(path):
        time.sleep(0.01)
    with open(path, "rb") as file:
        ctypes.memmove(ctypes.byref(unique), file.read(), 128)
    return unique


def main():
    check(hip.hipSetDevice(rank))
    module, kernel = ctypes.c_void_p(), ctypes.c_void_p()
    check(hip.hipModuleLoad(ctypes.byref(module), code_object.encode()))
    check(hip.hipModuleGetFunction(ctypes.byref(kernel), module, b"short_kernel"))
    streams = [ctypes.c_void_p(), ctypes.c_void_p()]
    for stream in streams:
        check(hip.hipStreamCreateWithFlags(ctypes.byref(stream), NON_BLOCKING))
    data, communicator = ctypes.c_void_p(), ctypes.c_void_p()
    check(hip.hipMalloc(ctypes.byref(data), ctypes.c_size_t(4 * COUNT)))
    arguments = (ctypes.c_void_p * 1)(ctypes.addressof(data))
    check(rccl.ncclCommInitRank(ctypes.byref(communicator), ranks, shared_id(), rank))
    for step in range(steps):
        roctx.roctxRangePushA(b"step %d" % step)
        check(hip.hipModuleLaunchKernel(kernel, 1, 1, 1, 64, 1, 1, 0, streams[0], arguments, None))
        if step % 2:
            check(hip.hipStreamSynchronize(streams[0]))
        check(rccl.ncclAllReduce(data, data, ctypes.c_size_t(COUNT), FLOAT, SUM, communicator, streams[1]))
        check(hip.hipDeviceSynchronize())
        roctx.roctxRangePop()
    check(rccl.ncclCommDestroy(communicator))


main()
