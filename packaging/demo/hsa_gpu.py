"""A GPU by the HSA runtime alone, for the simulated one: its kernels were compiled for gfx90a.

Numbers are those of hsa.h and hsa_ext_amd.h (ROCr 5.2); handles are structures of 64 bits, which are passed as integers are.
"""

import ctypes
import struct

LIBRARY = "libhsa-runtime64.so.1"

AGENT_INFO_DEVICE, DEVICE_CPU, DEVICE_GPU = 17, 0, 1
POOL_INFO_SEGMENT, POOL_INFO_FLAGS, SEGMENT_GLOBAL = 0, 1, 0
POOL_ARGUMENTS, POOL_FINE, POOL_COARSE = 1, 2, 4
QUEUE_TYPE_MULTI, QUEUE_PACKETS = 0, 256
PROFILE_FULL, ROUNDING_DEFAULT = 1, 0
SYMBOL_INFO_KERNEL_OBJECT = 22
SIGNAL_CONDITION_LESS, WAIT_BLOCKED, FOREVER = 2, 0, 2**64 - 1
# A kernel of one dimension, in order, visible to the whole system before and after: type, barrier, fences, dimensions.
PACKET_HEADER = 2 | 1 << 8 | 2 << 9 | 2 << 11 | 1 << 16
PACKET_BYTES = 64
# All but the header: work-group, grid, segments, kernel, arguments, reserved, signal.
PACKET = struct.Struct("<HHHHIIIIIQQQQ")

FORWARD = ["embed_tokens", *["gemm_forward", "softmax"] * 6]
BACKWARD = [*["gemm_backward"] * 6, "adam_update"]

handle = ctypes.c_uint64


class QueueHead(ctypes.Structure):
    """The beginning of hsa_queue_t."""

    _fields_ = [("type", ctypes.c_uint32), ("features", ctypes.c_uint32), ("packets", ctypes.c_uint64), ("doorbell", handle), ("size", ctypes.c_uint32)]


class HsaGpu:
    """The first GPU, with room for one batch."""

    def __init__(self, code_object, batch_bytes):
        self.hsa = ctypes.CDLL(LIBRARY)
        self.batch_bytes = batch_bytes
        # A copy of it that waits for no signal.
        self.whole_batch = (ctypes.c_size_t(batch_bytes), 0, None)
        self.call("hsa_init")
        self.processor, self.gpu = self.agents()
        host, arguments = self.pool(self.processor, POOL_FINE), self.pool(self.processor, POOL_ARGUMENTS)
        self.host = self.memory(host, batch_bytes)
        self.data = self.memory(self.pool(self.gpu, POOL_COARSE), batch_bytes)
        self.arguments = self.memory(arguments, 4096)
        ctypes.c_uint64.from_address(self.arguments.value).value = self.data.value
        self.queue = ctypes.POINTER(QueueHead)()
        unlimited = ctypes.c_uint32(2**32 - 1)
        self.call("hsa_queue_create", self.gpu, QUEUE_PACKETS, QUEUE_TYPE_MULTI, None, None, unlimited, unlimited, ctypes.byref(self.queue))
        self.signal = handle()
        self.call("hsa_signal_create", ctypes.c_int64(1), 0, None, ctypes.byref(self.signal))
        self.kernels = self.loaded(code_object)

    def check(self, status, function="hsa_amd_memory_async_copy"):
        if status != 0:
            raise SystemExit(f"train.py: {function}: HSA error {status:#x}")

    def call(self, function, *arguments):
        self.check(getattr(self.hsa, function)(*arguments), function)

    def collected(self, function, *arguments):
        """What a function hands to its callback, one after another."""
        found = []
        kind = ctypes.CFUNCTYPE(ctypes.c_int, handle, ctypes.c_void_p)
        callback = kind(lambda item, _: found.append(item) or 0)
        self.call(function, *arguments, callback, None)
        return found

    def number(self, function, item, attribute):
        value = ctypes.c_uint32()
        self.call(function, handle(item), attribute, ctypes.byref(value))
        return value.value

    def agents(self):
        agents = self.collected("hsa_iterate_agents")
        kinds = {self.number("hsa_agent_get_info", agent, AGENT_INFO_DEVICE): agent for agent in reversed(agents)}
        if DEVICE_GPU not in kinds:
            raise SystemExit("train.py: the HSA runtime finds no GPU")
        return handle(kinds[DEVICE_CPU]), handle(kinds[DEVICE_GPU])

    def pool(self, agent, flag):
        for pool in self.collected("hsa_amd_agent_iterate_memory_pools", agent):
            number = lambda attribute: self.number("hsa_amd_memory_pool_get_info", pool, attribute)
            if number(POOL_INFO_SEGMENT) == SEGMENT_GLOBAL and number(POOL_INFO_FLAGS) & flag:
                return handle(pool)
        raise SystemExit(f"train.py: no memory of kind {flag}")

    def memory(self, pool, size):
        place = ctypes.c_void_p()
        self.call("hsa_amd_memory_pool_allocate", pool, ctypes.c_size_t(size), 0, ctypes.byref(place))
        self.call("hsa_amd_agents_allow_access", 1, ctypes.byref(self.gpu), None, place)
        return place

    def loaded(self, code_object):
        with open(code_object, "rb") as file:
            code = file.read()
        reader, executable = handle(), handle()
        self.call("hsa_code_object_reader_create_from_memory", code, ctypes.c_size_t(len(code)), ctypes.byref(reader))
        self.call("hsa_executable_create_alt", PROFILE_FULL, ROUNDING_DEFAULT, None, ctypes.byref(executable))
        self.call("hsa_executable_load_agent_code_object", executable, self.gpu, reader, None, None)
        self.call("hsa_executable_freeze", executable, None)
        kernels = {}
        for name in {*FORWARD, *BACKWARD}:
            symbol, kernel = handle(), ctypes.c_uint64()
            self.call("hsa_executable_get_symbol_by_name", executable, f"{name}.kd".encode(), ctypes.byref(self.gpu), ctypes.byref(symbol))
            self.call("hsa_executable_symbol_get_info", symbol, SYMBOL_INFO_KERNEL_OBJECT, ctypes.byref(kernel))
            kernels[name] = kernel.value
        return kernels

    def wait(self):
        wait = self.hsa.hsa_signal_wait_scacquire
        wait(self.signal, SIGNAL_CONDITION_LESS, ctypes.c_int64(1), ctypes.c_uint64(FOREVER), WAIT_BLOCKED)
        self.hsa.hsa_signal_store_relaxed(self.signal, ctypes.c_int64(1))

    def launch(self, name, signal=0):
        queue = self.queue.contents
        index = self.hsa.hsa_queue_add_write_index_screlease(self.queue, ctypes.c_uint64(1))
        place = queue.packets + index % queue.size * PACKET_BYTES
        # 256 work-items in a group, 65536 in all.
        packet = PACKET.pack(256, 1, 1, 0, 1 << 16, 1, 1, 0, 0, self.kernels[name], self.arguments.value, 0, signal)
        ctypes.memmove(place + 4, packet, len(packet))
        # The header makes the packet valid, so it is written last.
        ctypes.c_uint32.from_address(place).value = PACKET_HEADER
        self.hsa.hsa_signal_store_screlease(handle(queue.doorbell), ctypes.c_int64(index))

    # Answers name the innermost function of the program, so these two call the runtime themselves.
    def upload(self, batch):
        ctypes.memmove(self.host.value, batch, self.batch_bytes)
        self.check(self.hsa.hsa_amd_memory_async_copy(self.data, self.gpu, self.host, self.processor, *self.whole_batch, self.signal))
        self.wait()

    def download(self):
        self.check(self.hsa.hsa_amd_memory_async_copy(self.host, self.processor, self.data, self.gpu, *self.whole_batch, self.signal))
        self.wait()
        return ctypes.string_at(self.host.value, self.batch_bytes)

    def forward(self):
        for name in FORWARD:
            self.launch(name)

    def backward(self):
        for name in BACKWARD[:-1]:
            self.launch(name)
        self.launch(BACKWARD[-1], self.signal.value)
        self.wait()

    def train(self, batch):
        self.upload(batch)
        self.forward()
        self.backward()
