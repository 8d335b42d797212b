// What HIP tells its tracer of graphs, with nothing of ours in the process: hip_graphs NODES LAUNCHES
//
// Takes the place for HIP's tracer itself, launches a graph of NODES kernels LAUNCHES times, synchronises after each launch, and waits up
// to three seconds for the records of all kernels. Prints how many it expects, and how many came: `expected=`, `told=`.
#include <hip/hip_runtime.h>

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>

#include "check.h"

__global__ void node(int *data) { data[threadIdx.x] -= 1; }

extern "C" __attribute__((weak)) void hipRegisterTracerCallback(int (*callback)(uint32_t, uint32_t, void *));

static std::atomic<int> told{0};

static int on_event(uint32_t domain, uint32_t op, void *data)
{
    const uint32_t OPERATIONS = 2, DISPATCH = 0;
    if (domain != OPERATIONS)
        return 1;
    // Null asks whether we want to be told; 1 says that a batch is complete.
    if (op == DISPATCH && (uintptr_t)data > 1)
        told++;
    return 0;
}

int main(int count, char **words)
{
    int nodes = count > 1 ? atoi(words[1]) : 500, launches = count > 2 ? atoi(words[2]) : 100;
    if (!hipRegisterTracerCallback) {
        fprintf(stderr, "this HIP has no place for a tracer\n");
        return 1;
    }
    hipRegisterTracerCallback(on_event);
    int *data;
    hipStream_t stream;
    hipGraph_t graph;
    hipGraphExec_t executable;
    HIP(hipMalloc(&data, 4096));
    HIP(hipStreamCreate(&stream));
    HIP(hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal));
    for (int i = 0; i < nodes; i++)
        hipLaunchKernelGGL(node, dim3(1), dim3(64), 0, stream, data);
    HIP(hipStreamEndCapture(stream, &graph));
    HIP(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
    for (int i = 0; i < launches; i++) {
        HIP(hipGraphLaunch(executable, stream));
        HIP(hipStreamSynchronize(stream));
    }
    int expected = nodes * launches;
    for (int nap = 0; told < expected && nap < 3000; nap++)
        usleep(1000);
    printf("expected=%d\ntold=%d\n", expected, told.load());
    return 0;
}
