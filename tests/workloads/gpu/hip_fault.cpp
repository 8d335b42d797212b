// Twenty kernels that are well, and then `one` that may not be: for faults. Prints a line for each step.
#include <hip/hip_runtime.h>

#include <cstdio>

__global__ void spin(int *data) { data[threadIdx.x] += 1; }
__global__ void one(int *data) { data[threadIdx.x] *= 3; }

static void step(const char *name, hipError_t status)
{
    printf("%s=%d\n", name, (int)status);
    fflush(stdout);
}

int main()
{
    int *data = nullptr;
    step("malloc", hipMalloc(&data, 4096));
    for (int i = 0; i < 20; i++)
        hipLaunchKernelGGL(spin, dim3(1), dim3(64), 0, nullptr, data);
    step("before", hipDeviceSynchronize());
    hipLaunchKernelGGL(one, dim3(1), dim3(64), 0, nullptr, data);
    step("after", hipDeviceSynchronize());
    return 0;
}
