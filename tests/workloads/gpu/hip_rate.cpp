// How long launches take on the thread that makes them: hip_rate LAUNCHES [tracer|asked]
//
// Launches in batches of 500; waiting for the kernels is not counted. Prints `launch_cpu_ns=` and `launch_wall_ns=`, the means over all launches, and
// `launch_low_ns=`, the CPU time of a launch than which a tenth of the batches had less: a machine that does something else as well disturbs the
// mean, not this. `ended_ns=` is the time of day when the last kernel was done. With `tracer` HIP tells the program of each kernel, with `asked` it
// asks only whether to, and the program does nothing: what any tracer costs.
#include <hip/hip_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "check.h"

__global__ void nothing(int *data) { (void)data; }

extern "C" __attribute__((weak)) void hipRegisterTracerCallback(int (*callback)(uint32_t, uint32_t, void *));

static int on_event(uint32_t domain, uint32_t, void *)
{
    const uint32_t OPERATIONS = 2;
    return domain != OPERATIONS;
}

static int on_question(uint32_t, uint32_t, void *) { return 1; }

int main(int argc, char **argv)
{
    const long batch = 500, launches = argc > 1 ? atol(argv[1]) : 10000;
    if (argc > 2) {
        REQUIRE(hipRegisterTracerCallback);
        hipRegisterTracerCallback(strcmp(argv[2], "asked") ? on_event : on_question);
    }
    hipStream_t stream;
    HIP(hipStreamCreate(&stream));
    double wall = 0;
    std::vector<double> cpu;
    // The first batch loads the code and is not counted.
    for (long start = -batch; start < launches; start += batch) {
        double cpu_before = now_ns(CLOCK_THREAD_CPUTIME_ID), wall_before = now_ns(CLOCK_MONOTONIC);
        for (long launch = 0; launch < batch; launch++)
            hipLaunchKernelGGL(nothing, dim3(1), dim3(64), 0, stream, nullptr);
        if (start >= 0) {
            cpu.push_back((now_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_before) / batch);
            wall += (now_ns(CLOCK_MONOTONIC) - wall_before) / batch;
        }
        HIP(hipStreamSynchronize(stream));
    }
    const double batches = cpu.size();
    double sum = 0;
    for (double one : cpu)
        sum += one;
    std::nth_element(cpu.begin(), cpu.begin() + cpu.size() / 10, cpu.end());
    printf("launch_cpu_ns=%.1f\nlaunch_wall_ns=%.1f\nlaunch_low_ns=%.1f\nended_ns=%.0f\n", sum / batches, wall / batches, cpu[cpu.size() / 10],
           now_ns(CLOCK_REALTIME));
    return 0;
}
