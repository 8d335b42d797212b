// Two ranks, the second of which comes late: the first waits for it in a call of RCCL, and its GPU is idle.
//
// rccl_held RANK FILE MILLISECONDS    rank 0 writes the id to the file; rank 1 sleeps so long before it joins
//
// Each rank prints `joins RANK PID TIME` in front of that call, in nanoseconds of CLOCK_BOOTTIME.
#include <hip/hip_runtime_api.h>
#include <rccl/rccl.h>

#include "rccl_id.h"

enum { COUNT = 4096 };

__attribute__((noinline)) static ncclComm_t joins(int rank, ncclUniqueId id)
{
    ncclComm_t comm;
    printf("joins %d %d %.0f\n", rank, (int)getpid(), now_ns(CLOCK_BOOTTIME));
    NCCL(ncclCommInitRank(&comm, 2, id, rank));
    return comm;
}

int main(int argc, char **argv)
{
    REQUIRE(argc == 4);
    int rank = atoi(argv[1]);
    float *data;
    hipStream_t stream;
    HIP(hipSetDevice(rank));
    HIP(hipStreamCreate(&stream));
    HIP(hipMalloc((void **)&data, COUNT * sizeof *data));
    ncclUniqueId id = exchanged_id(rank, argv[2]);
    HIP(hipMemsetAsync(data, 0, COUNT * sizeof *data, stream));
    HIP(hipStreamSynchronize(stream));
    if (rank == 1)
        usleep((unsigned)atoi(argv[3]) * 1000);
    ncclComm_t comm = joins(rank, id);
    NCCL(ncclAllReduce(data, data, COUNT, ncclFloat32, ncclSum, comm, stream));
    HIP(hipStreamSynchronize(stream));
    NCCL(ncclCommDestroy(comm));
    return 0;
}
