// Kernels for workloads that load a code object themselves. What they compute is of no interest: the simulated GPU
// only takes the time for them.
__kernel void short_kernel(__global unsigned *data) { data[__builtin_amdgcn_workitem_id_x()] += 1; }
__kernel void long_kernel(__global unsigned *data) { data[__builtin_amdgcn_workitem_id_x()] *= 3; }
