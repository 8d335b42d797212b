"""A rank that computes on its GPU and sums over all ranks, again and again; one of them is late for a known reason.

Arguments: HIP's library, RCCL's library, code object, rank, ranks, file for the communicator's id, steps, reason.
Rank 1 is late; reasons: `sleeps` (in a Python function), `computes` (Python code), `kernels` (longer ones), `none`. With two reasons the machine makes
it late, and all ranks do the same: `copies` (a batch of data each step), `clock` (long kernels). With `stuck` rank 1 waits for data after all steps, while
the others begin a broadcast that ends only with it; at last somebody loses patience and ends them all.
"""
import ctypes
import os
import signal
import sys
import time

hip, rccl = ctypes.CDLL(sys.argv[1]), ctypes.CDLL(sys.argv[2])
code_object, rank, ranks, path, steps, reason = sys.argv[3], int(sys.argv[4]), int(sys.argv[5]), sys.argv[6], int(sys.argv[7]), sys.argv[8]
COUNT, LATE_NS, BATCH_BYTES, PATIENCE_S = 4096, 100_000_000, 2_000_000, 2
FLOAT, SUM = 7, 0
HOST_TO_DEVICE = 1
BLOCKING_SYNC = 4


class UniqueId(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 128)]


def check(status):
    if status != 0:
        raise SystemExit(f"error {status}")


def sleeps():
    time.sleep(LATE_NS / 1e9)


def computes():
    end = time.thread_time_ns() + LATE_NS
    while time.thread_time_ns() < end:
        sum(range(20_000))


def load_batch(target, batch):
    check(hip.hipMemcpyAsync(target, batch, ctypes.c_size_t(BATCH_BYTES), HOST_TO_DEVICE, None))


def wait_for_data():
    time.sleep(PATIENCE_S)
    os.kill(0, signal.SIGTERM)


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
    # Ranks that spin while they wait would take the processors from the simulated GPUs.
    check(hip.hipSetDeviceFlags(BLOCKING_SYNC))
    module, kernels = ctypes.c_void_p(), {}
    check(hip.hipModuleLoad(ctypes.byref(module), code_object.encode()))
    for name in (b"short_kernel", b"long_kernel"):
        kernels[name] = ctypes.c_void_p()
        check(hip.hipModuleGetFunction(ctypes.byref(kernels[name]), module, name))
    data, communicator = ctypes.c_void_p(), ctypes.c_void_p()
    check(hip.hipMalloc(ctypes.byref(data), ctypes.c_size_t(4 * COUNT)))
    arguments = (ctypes.c_void_p * 1)(ctypes.addressof(data))
    check(rccl.ncclCommInitRank(ctypes.byref(communicator), ranks, shared_id(), rank))
    target, batch = ctypes.c_void_p(), ctypes.c_void_p()
    check(hip.hipMalloc(ctypes.byref(target), ctypes.c_size_t(BATCH_BYTES)))
    check(hip.hipHostMalloc(ctypes.byref(batch), ctypes.c_size_t(BATCH_BYTES), 0))
    late = reason if rank == 1 else "none"
    name = b"long_kernel" if late == "kernels" or reason == "clock" else b"short_kernel"
    for _ in range(steps):
        if reason == "copies":
            load_batch(target, batch)
        {"sleeps": sleeps, "computes": computes}.get(late, lambda: None)()
        check(hip.hipModuleLaunchKernel(kernels[name], 1, 1, 1, 64, 1, 1, 0, None, arguments, None))
        check(rccl.ncclAllReduce(data, data, ctypes.c_size_t(COUNT), FLOAT, SUM, communicator, None))
        check(hip.hipDeviceSynchronize())
    if late == "stuck":
        wait_for_data()
    if reason == "stuck":
        # Its kernel ends neither, for the simulated GPU runs this one in front of it for ever.
        check(hip.hipModuleLaunchKernel(kernels[b"long_kernel"], 1, 1, 1, 64, 1, 1, 0, None, arguments, None))
        check(rccl.ncclBroadcast(data, data, ctypes.c_size_t(COUNT), FLOAT, 0, communicator, None))
        check(rccl.ncclAllReduce(data, data, ctypes.c_size_t(COUNT), FLOAT, SUM, communicator, None))
        check(hip.hipDeviceSynchronize())
    check(rccl.ncclCommDestroy(communicator))


main()
