// The kernels of the demo's program. What they compute is of no interest: simulated GPUs take the time for them, and no more.
// `kernels.gfx90a.co` is made from this file, so that the demo needs no compiler for GPUs:
//     clang -x cl -O2 -target amdgcn-amd-amdhsa -nogpulib -mcpu=gfx90a kernels.cl -o kernels.gfx90a.co
#define KERNEL(name) \
    __kernel void name(__global float *data) { data[__builtin_amdgcn_workitem_id_x()] *= 3; }

KERNEL(embed_tokens)
KERNEL(gemm_forward)
KERNEL(softmax)
KERNEL(gemm_backward)
KERNEL(adam_update)
