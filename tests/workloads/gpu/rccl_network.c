// Collectives of RCCL between processes that call themselves different machines (NCCL_HOSTID), so that proxies move the data: `ranks rank file plugin`. Kernels
// have no effect on a simulated GPU, so no transfer ever ends: the program ends with what its proxies have begun, which the plug-in knows (rccl_plugin.c).
#include <dlfcn.h>
#include <hip/hip_runtime_api.h>
#include <rccl/rccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "rccl_id.h"

enum { COUNT = 4096, CALLS = 2 };

int main(int argc, char **argv)
{
    if (argc != 5)
        return 2;
    int ranks = atoi(argv[1]), rank = atoi(argv[2]);
    ncclUniqueId id = exchanged_id(rank, argv[3]);
    HIP(hipSetDevice(rank));
    ncclComm_t communicator;
    NCCL(ncclCommInitRank(&communicator, ranks, id, rank));
    hipStream_t stream;
    float *send, *receive;
    HIP(hipStreamCreate(&stream));
    HIP(hipMalloc((void **)&send, COUNT * sizeof(float)));
    HIP(hipMalloc((void **)&receive, COUNT * sizeof(float)));
    for (int call = 0; call < CALLS; call++)
        NCCL(ncclAllReduce(send, receive, COUNT, ncclFloat, ncclSum, communicator, stream));
    HIP(hipStreamSynchronize(stream));
    printf("calls=%d\n", CALLS);
    fflush(stdout);
    // The library has it already.
    void *plugin = dlopen(argv[4], RTLD_NOW | RTLD_NOLOAD);
    int (*await)(int) = plugin ? (int (*)(int))dlsym(plugin, "rccl_plugin_await") : NULL;
    if (!await || await(2 * CALLS) != 0) {
        fprintf(stderr, "rccl_network: %s\n", await ? "proxies do nothing" : dlerror());
        exit(4);
    }
    // Who ends first breaks the connections of the others, whose proxies then begin nothing more.
    char mark[4096];
    snprintf(mark, sizeof mark, "%s.%d", argv[3], rank);
    FILE *file = fopen(mark, "wb");
    if (!file || fclose(file) != 0)
        exit(3);
    for (int other = 0; other < ranks; other++) {
        snprintf(mark, sizeof mark, "%s.%d", argv[3], other);
        for (int naps = 0; access(mark, F_OK) != 0; naps++) {
            if (naps == 6000)
                exit(5);
            usleep(10000);
        }
    }
    exit(0);
}
