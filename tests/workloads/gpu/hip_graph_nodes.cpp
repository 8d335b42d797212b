// Launches a graph again and again, and gives its nodes another kernel before each launch: hip_graph_nodes NODES TIMES [behind]
//
// With `behind` nobody waits for a launch before the nodes change.
#include <hip/hip_runtime.h>

#include <vector>

#include "check.h"

__global__ void brief(int *data) { data[threadIdx.x] += 1; }
__global__ void of_a_name_that_fits_into_no_short_string(int *data) { data[threadIdx.x] += 2; }

int main(int count, char **words)
{
    int nodes = atoi(words[1]), times = atoi(words[2]);
    bool waits = count < 4;
    int *data;
    hipStream_t stream;
    hipGraph_t graph;
    hipGraphExec_t executable;
    HIP(hipMalloc(&data, 4096));
    HIP(hipStreamCreate(&stream));
    HIP(hipGraphCreate(&graph, 0));
    void *arguments[] = {&data};
    hipKernelNodeParams node = {};
    node.func = (void *)brief;
    node.gridDim = dim3(1);
    node.blockDim = dim3(64);
    node.kernelParams = arguments;
    std::vector<hipGraphNode_t> all(nodes);
    for (int i = 0; i < nodes; i++)
        HIP(hipGraphAddKernelNode(&all[i], graph, i ? &all[i - 1] : nullptr, i ? 1 : 0, &node));
    HIP(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
    for (int i = 0; i < times; i++) {
        node.func = i % 2 ? (void *)brief : (void *)of_a_name_that_fits_into_no_short_string;
        for (hipGraphNode_t &one : all)
            HIP(hipGraphExecKernelNodeSetParams(executable, one, &node));
        HIP(hipGraphLaunch(executable, stream));
        if (waits)
            HIP(hipStreamSynchronize(stream));
    }
    HIP(hipStreamSynchronize(stream));
    return 0;
}
