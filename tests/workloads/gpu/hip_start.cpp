// The least that a HIP program does: sets the runtime up, launches one kernel, waits for it, and ends.
//
// Prints `kernel_done_ns=`, when it had waited (CLOCK_MONOTONIC), and `kernel_done_cpu_ns=`, the CPU time that the process had used by then.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <ctime>

__global__ void nothing(int *data) { (void)data; }

static double now(clockid_t clock)
{
    timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

int main()
{
    hipLaunchKernelGGL(nothing, dim3(1), dim3(64), 0, nullptr, nullptr);
    if (hipDeviceSynchronize() != hipSuccess)
        return 1;
    printf("kernel_done_ns=%.0f\nkernel_done_cpu_ns=%.0f\n", now(CLOCK_MONOTONIC), now(CLOCK_PROCESS_CPUTIME_ID));
    return 0;
}
