// The least that a HIP program does: sets the runtime up, launches one kernel, waits for it, and ends: hip_start [SLEEP_MS]
//
// Prints `kernel_done_ns=`, when it had waited (CLOCK_MONOTONIC), and `kernel_done_cpu_ns=`, the CPU time that the process had used by then;
// if it is to sleep before its end, `sleep_cpu_ns=`, the CPU time that its threads used meanwhile.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <unistd.h>

#include "check.h"

__global__ void nothing(int *data) { (void)data; }

int main(int argc, char **argv)
{
    hipLaunchKernelGGL(nothing, dim3(1), dim3(64), 0, nullptr, nullptr);
    HIP(hipDeviceSynchronize());
    printf("kernel_done_ns=%.0f\nkernel_done_cpu_ns=%.0f\n", now_ns(CLOCK_MONOTONIC), now_ns(CLOCK_PROCESS_CPUTIME_ID));
    if (argc > 1) {
        double before = now_ns(CLOCK_PROCESS_CPUTIME_ID);
        usleep(atoi(argv[1]) * 1000);
        printf("sleep_cpu_ns=%.0f\n", now_ns(CLOCK_PROCESS_CPUTIME_ID) - before);
    }
    return 0;
}
