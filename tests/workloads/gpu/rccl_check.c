// Collectives on all GPUs with RCCL.
//
// Without arguments: one process, all GPUs. With `ranks rank file`: one process per GPU; rank 0 writes the id to the
// file. Kernels have no effect on a simulated GPU, so statuses and the number of kernels are all that can be checked.
#include <hip/hip_runtime_api.h>
#include <rccl/rccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rccl_id.h"

enum { MAX_RANKS = 16, COUNT = 1 << 16, LOOPS = 20 };
static ncclComm_t comms[MAX_RANKS];
static hipStream_t streams[MAX_RANKS];
static float *sends[MAX_RANKS], *receives[MAX_RANKS];

// Every operation in a group of its own, over the local ranks `first..first + local` of `ranks`.
static int run(int first, int local, int ranks)
{
    int groups = 0;
#define EACH(operation)                                  \
    do {                                                 \
        NCCL(ncclGroupStart());                          \
        for (int i = 0; i < local; i++) {                \
            int rank = first + i;                        \
            (void)rank;                                  \
            HIP(hipSetDevice(first + i));                \
            operation;                                   \
        }                                                \
        NCCL(ncclGroupEnd());                            \
        groups++;                                        \
    } while (0)
    EACH(NCCL(ncclAllReduce(sends[i], receives[i], COUNT, ncclFloat, ncclSum, comms[i], streams[i])));
    EACH(NCCL(ncclBroadcast(sends[i], receives[i], COUNT, ncclFloat, 0, comms[i], streams[i])));
    EACH(NCCL(ncclReduce(sends[i], receives[i], COUNT, ncclFloat, ncclMax, 0, comms[i], streams[i])));
    EACH(NCCL(ncclAllGather(sends[i], receives[i], COUNT / (size_t)ranks, ncclFloat, comms[i], streams[i])));
    EACH(NCCL(ncclReduceScatter(sends[i], receives[i], COUNT / (size_t)ranks, ncclFloat, ncclSum, comms[i], streams[i])));
    EACH(NCCL(ncclSend(sends[i], 1000, ncclFloat, (rank + 1) % ranks, comms[i], streams[i]));
         NCCL(ncclRecv(receives[i], 1000, ncclFloat, (rank + ranks - 1) % ranks, comms[i], streams[i])));
    for (int loop = 0; loop < LOOPS; loop++)
        EACH(NCCL(ncclAllReduce(sends[i], receives[i], 256, ncclFloat, ncclSum, comms[i], streams[i])));
    for (int i = 0; i < local; i++)
        HIP(hipStreamSynchronize(streams[i]));
    return groups;
}

static void prepare(int local, int first)
{
    for (int i = 0; i < local; i++) {
        HIP(hipSetDevice(first + i));
        HIP(hipStreamCreate(&streams[i]));
        HIP(hipMalloc((void **)&sends[i], COUNT * sizeof(float)));
        HIP(hipMalloc((void **)&receives[i], COUNT * sizeof(float)));
    }
}

int main(int argc, char **argv)
{
    int ranks = 0, first = 0, local;
    HIP(hipGetDeviceCount(&ranks));
    local = ranks;
    if (argc == 4) {
        ranks = atoi(argv[1]);
        first = atoi(argv[2]);
        local = 1;
        ncclUniqueId id = exchanged_id(first, argv[3]);
        prepare(1, first);
        NCCL(ncclCommInitRank(&comms[0], ranks, id, first));
    } else {
        int devices[MAX_RANKS];
        for (int i = 0; i < ranks; i++)
            devices[i] = i;
        prepare(local, 0);
        NCCL(ncclCommInitAll(comms, ranks, devices));
    }
    int groups = run(first, local, ranks);
    for (int i = 0; i < local; i++)
        NCCL(ncclCommDestroy(comms[i]));
    printf("groups=%d\nranks=%d\n", groups, local);
    return 0;
}
