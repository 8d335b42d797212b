// How long launches take on the thread that makes them: hip_rate LAUNCHES
//
// Prints `launch_cpu_ns=` and `launch_wall_ns=`, the means over all launches; waiting for the kernels is not counted. `ended_ns=` is the time
// of day when the last of them was done.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>

#include "check.h"

__global__ void nothing(int *data) { (void)data; }

int main(int argc, char **argv)
{
    const long batch = 500, launches = argc > 1 ? atol(argv[1]) : 10000;
    hipStream_t stream;
    HIP(hipStreamCreate(&stream));
    double cpu = 0, wall = 0;
    long done = 0;
    // The first batch loads the code and is not counted.
    for (long start = -batch; start < launches; start += batch) {
        double cpu_before = now_ns(CLOCK_THREAD_CPUTIME_ID), wall_before = now_ns(CLOCK_MONOTONIC);
        for (long launch = 0; launch < batch; launch++)
            hipLaunchKernelGGL(nothing, dim3(1), dim3(64), 0, stream, nullptr);
        if (start >= 0) {
            cpu += now_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_before;
            wall += now_ns(CLOCK_MONOTONIC) - wall_before;
            done += batch;
        }
        HIP(hipStreamSynchronize(stream));
    }
    printf("launch_cpu_ns=%.1f\nlaunch_wall_ns=%.1f\nended_ns=%.0f\n", cpu / done, wall / done, now_ns(CLOCK_REALTIME));
    return 0;
}
