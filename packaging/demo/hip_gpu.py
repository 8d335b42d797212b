"""A GPU by HIP, with kernels that the runtime's own compiler makes for it."""

import ctypes

LIBRARIES = ["libamdhip64.so", "/opt/rocm/lib/libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5"]
COMPILERS = ["libhiprtc.so", "/opt/rocm/lib/libhiprtc.so", "libhiprtc.so.7", "libhiprtc.so.6", "libhiprtc.so.5"]
# Of hipMemcpyKind, in hip_runtime_api.h.
HOST_TO_DEVICE, DEVICE_TO_HOST = 1, 2
NAMES = ["forward_layer", "backward_layer"]
KERNELS = b"""
extern "C" __global__ void forward_layer(float *data) { for (int i = 0; i < 20000; i++) data[threadIdx.x] = data[threadIdx.x] * 0.5f + 1; }
extern "C" __global__ void backward_layer(float *data) { for (int i = 0; i < 40000; i++) data[threadIdx.x] = data[threadIdx.x] * 0.5f + 1; }
"""


def first_library(names):
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            continue
    return None


class HipGpu:
    """The first GPU, with room for one batch."""

    def __init__(self, batch_bytes, layers):
        self.hip = first_library(LIBRARIES)
        if self.hip is None:
            raise SystemExit("train.py: no HIP runtime (libamdhip64.so)")
        self.size = ctypes.c_size_t(batch_bytes)
        self.layers = layers
        self.data = ctypes.c_void_p()
        self.check(self.hip.hipMalloc(ctypes.byref(self.data), self.size))
        self.arguments = (ctypes.c_void_p * 1)(ctypes.addressof(self.data))
        self.kernels = self.compiled()
        if not self.kernels:
            print("The GPU copies and fills only: the runtime's compiler (libhiprtc.so), which makes kernels for it, is not there or fails.", flush=True)

    def check(self, status):
        if status != 0:
            raise SystemExit(f"train.py: HIP error {status}")

    def compiled(self):
        """Kernels by their names; none where the compiler is missing or fails."""
        # HIP 5 has it in its own library.
        compiler = self.hip if hasattr(self.hip, "hiprtcCreateProgram") else first_library(COMPILERS)
        program, size, module = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_void_p()
        if compiler is None or compiler.hiprtcCreateProgram(ctypes.byref(program), KERNELS, b"kernels", 0, None, None) != 0:
            return {}
        if compiler.hiprtcCompileProgram(program, 0, None) != 0 or compiler.hiprtcGetCodeSize(program, ctypes.byref(size)) != 0:
            return {}
        code = ctypes.create_string_buffer(size.value)
        if compiler.hiprtcGetCode(program, code) != 0 or self.hip.hipModuleLoadData(ctypes.byref(module), code) != 0:
            return {}
        kernels = {name: ctypes.c_void_p() for name in NAMES}
        for name, kernel in kernels.items():
            self.check(self.hip.hipModuleGetFunction(ctypes.byref(kernel), module, name.encode()))
        return kernels

    def launch(self, name):
        if self.kernels:
            self.check(self.hip.hipModuleLaunchKernel(self.kernels[name], 64, 1, 1, 256, 1, 1, 0, None, self.arguments, None))
        else:
            self.check(self.hip.hipMemsetAsync(self.data, 0, self.size, None))

    def upload(self, batch):
        self.check(self.hip.hipMemcpy(self.data, batch, self.size, HOST_TO_DEVICE))

    def download(self):
        batch = ctypes.create_string_buffer(self.size.value)
        self.check(self.hip.hipMemcpy(batch, self.data, self.size, DEVICE_TO_HOST))
        return batch.raw

    def train(self, batch):
        self.upload(batch)
        for name in NAMES:
            for _ in range(self.layers):
                self.launch(name)
        self.check(self.hip.hipDeviceSynchronize())
