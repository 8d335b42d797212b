// One kernel between two events, and what HIP says of it: for faults.
//
// Prints `step=status` for every step, and the elapsed time.
#include <hip/hip_runtime.h>

#include <cstdio>

__global__ void spin(int *data) { data[threadIdx.x] += 1; }

static bool step(const char *name, hipError_t status)
{
    printf("%s=%d\n", name, (int)status);
    fflush(stdout);
    return status == hipSuccess;
}

int main()
{
    int count = 0, *data = nullptr;
    hipEvent_t before, after;
    float milliseconds = -1;
    if (!step("count", hipGetDeviceCount(&count)) || !step("malloc", hipMalloc(&data, 64 << 20)))
        return 1;
    if (!step("events", hipEventCreate(&before)) || !step("events", hipEventCreate(&after)))
        return 1;
    step("record", hipEventRecord(before, nullptr));
    hipLaunchKernelGGL(spin, dim3(1), dim3(64), 0, nullptr, data);
    step("launch", hipGetLastError());
    step("record", hipEventRecord(after, nullptr));
    step("synchronize", hipDeviceSynchronize());
    step("elapsed", hipEventElapsedTime(&milliseconds, before, after));
    printf("elapsed_us=%.0f\n", (double)milliseconds * 1000);
    return 0;
}
