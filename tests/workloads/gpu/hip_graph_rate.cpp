// What launches of a graph cost the thread that makes them, and whether the GPU stays busy: hip_graph_rate NODES LAUNCHES [tracer]
//
// Launches a graph of NODES kernels LAUNCHES times, as an engine does that decodes: two launches are under way, and the one before is waited for.
// Prints `launch_cpu_ns=` and `launch_wall_ns=`, the means over all launches, `launch_median_ns=` (wall time); waiting is not counted. With `tracer`
// HIP tells the program of each kernel, which does nothing with it: what any tracer costs.
#include <hip/hip_runtime.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "check.h"

__global__ void node(int *data) { (void)data; }

extern "C" __attribute__((weak)) void hipRegisterTracerCallback(int (*callback)(uint32_t, uint32_t, void *));

static int on_event(uint32_t domain, uint32_t, void *)
{
    const uint32_t OPERATIONS = 2;
    return domain != OPERATIONS;
}

int main(int argc, char **argv)
{
    const int nodes = argc > 1 ? atoi(argv[1]) : 100, launches = argc > 2 ? atoi(argv[2]) : 100, first = 5;
    if (argc > 3) {
        REQUIRE(hipRegisterTracerCallback);
        hipRegisterTracerCallback(on_event);
    }
    hipStream_t stream;
    hipGraph_t graph;
    hipGraphExec_t executable;
    hipEvent_t events[2];
    HIP(hipStreamCreate(&stream));
    for (auto &event : events)
        HIP(hipEventCreateWithFlags(&event, hipEventDisableTiming));
    HIP(hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal));
    for (int i = 0; i < nodes; i++)
        hipLaunchKernelGGL(node, dim3(1), dim3(64), 0, stream, nullptr);
    HIP(hipStreamEndCapture(stream, &graph));
    HIP(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
    double cpu = 0;
    std::vector<double> wall;
    // The first launches load the code and are not counted.
    for (int launch = -first; launch < launches; launch++) {
        double cpu_before = now_ns(CLOCK_THREAD_CPUTIME_ID), wall_before = now_ns(CLOCK_MONOTONIC);
        HIP(hipGraphLaunch(executable, stream));
        if (launch >= 0) {
            cpu += now_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_before;
            wall.push_back(now_ns(CLOCK_MONOTONIC) - wall_before);
        }
        hipEvent_t &mine = events[(launch + first) % 2], &before = events[(launch + first + 1) % 2];
        HIP(hipEventRecord(mine, stream));
        if (launch > -first)
            HIP(hipEventSynchronize(before));
    }
    HIP(hipStreamSynchronize(stream));
    double sum = 0;
    for (double one : wall)
        sum += one;
    std::nth_element(wall.begin(), wall.begin() + wall.size() / 2, wall.end());
    printf("launch_cpu_ns=%.1f\nlaunch_wall_ns=%.1f\nlaunch_median_ns=%.1f\n", cpu / launches, sum / launches, wall[wall.size() / 2]);
    return 0;
}
