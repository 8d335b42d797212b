// Two ranks, the second of which comes late: the first waits for it in a call of RCCL, and its GPU is idle.
//
// rccl_held RANK FILE MILLISECONDS    rank 0 writes the id to the file; rank 1 sleeps so long before it joins
//
// Each rank prints `joins RANK PID TIME` in front of that call, in nanoseconds of CLOCK_BOOTTIME.
#include <hip/hip_runtime_api.h>
#include <rccl/rccl.h>
#include <unistd.h>

#include "check.h"

enum { COUNT = 4096 };

static ncclUniqueId exchange(int rank, const char *path)
{
    ncclUniqueId id;
    FILE *file;
    if (rank == 0) {
        char draft[4096];
        NCCL(ncclGetUniqueId(&id));
        snprintf(draft, sizeof draft, "%s.draft", path);
        REQUIRE((file = fopen(draft, "wb")) && fwrite(&id, sizeof id, 1, file) == 1);
        REQUIRE(fclose(file) == 0 && rename(draft, path) == 0);
        return id;
    }
    while (!(file = fopen(path, "rb")))
        usleep(10000);
    REQUIRE(fread(&id, sizeof id, 1, file) == 1);
    fclose(file);
    return id;
}

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
    ncclUniqueId id = exchange(rank, argv[2]);
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
