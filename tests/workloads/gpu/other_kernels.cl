// A kernel of the same name as one of kernels.cl, on another line.



__kernel void short_kernel(__global unsigned *data) { data[__builtin_amdgcn_workitem_id_x()] += 2; }
