// Every call of RCCL that moves data, in and out of groups. Each is printed as a profiler should tell of it.
//
// rccl_calls            one process, all GPUs
// rccl_calls N R FILE   rank R of N, one process each; rank 0 writes the id to the file
#include <hip/hip_runtime_api.h>
#include <rccl/rccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

enum { MOST = 8, COUNT = 4096 };
static int ranks, first, local;
static ncclComm_t comms[MOST];
static hipStream_t streams[MOST];
static char *sends[MOST], *receives[MOST];
// What the profiler has to count: collectives of each rank, and messages between each two.
static long collectives[MOST], sent[MOST][MOST], received[MOST][MOST];
static int communicator;

// The line that stands for a call, but for its beginning and end.
#define SAY(name, ...)                        \
    do {                                      \
        printf("call %d " name, (int)getpid()); \
        printf(" " __VA_ARGS__);              \
        printf("\n");                         \
    } while (0)
#define WHO "communicator=%d rank=%d ranks=%d sequence=%ld "
#define WHO_OF(i) communicator, first + (i), ranks, collectives[i]++

static long operations, group_bytes;
static const char *group_kind;

static size_t in_group(const char *kind, size_t bytes)
{
    operations++;
    group_bytes += (long)bytes;
    group_kind = group_kind && strcmp(group_kind, kind) != 0 ? "mixed" : kind;
    return bytes;
}

static void group_start(void)
{
    SAY("ncclGroupStart", "");
    operations = group_bytes = 0;
    group_kind = NULL;
    NCCL(ncclGroupStart());
}

static void group_end(void)
{
    if (operations)
        SAY("ncclGroupEnd", "bytes=%ld operations=%ld detail=%s", group_bytes, operations, group_kind);
    else
        SAY("ncclGroupEnd", "");
    NCCL(ncclGroupEnd());
}

static void all_reduce(int i, ncclDataType_t type, const char *type_name, size_t size, ncclRedOp_t op, const char *op_name)
{
    SAY("ncclAllReduce", WHO "count=%d datatype=%s bytes=%zu operation=%s", WHO_OF(i), COUNT, type_name,
        in_group("ncclAllReduce", COUNT * size), op_name);
    NCCL(ncclAllReduce(sends[i], receives[i], COUNT, type, op, comms[i], streams[i]));
}

static void send_to(int i, int peer, size_t count)
{
    SAY("ncclSend", "communicator=%d rank=%d ranks=%d sequence=%ld count=%zu datatype=int8 bytes=%zu peer=%d", communicator,
        first + i, ranks, sent[i][peer]++, count, in_group("ncclSend", count), peer);
    NCCL(ncclSend(sends[i], count, ncclInt8, peer, comms[i], streams[i]));
}

static void receive_from(int i, int peer, size_t count)
{
    SAY("ncclRecv", "communicator=%d rank=%d ranks=%d sequence=%ld count=%zu datatype=int8 bytes=%zu peer=%d", communicator,
        first + i, ranks, received[i][peer]++, count, in_group("ncclRecv", count), peer);
    NCCL(ncclRecv(receives[i], count, ncclInt8, peer, comms[i], streams[i]));
}

#define EACH for (int i = 0; i < local && hipSetDevice(first + i) == hipSuccess; i++)
#define GROUP(...)             \
    do {                       \
        group_start();         \
        EACH { __VA_ARGS__; }   \
        group_end();           \
    } while (0)

static void use(void)
{
    GROUP(all_reduce(i, ncclFloat32, "float32", 4, ncclSum, "sum"));
    GROUP(all_reduce(i, ncclFloat64, "float64", 8, ncclProd, "prod"));
    GROUP(all_reduce(i, ncclFloat16, "float16", 2, ncclMax, "max"));
    GROUP(all_reduce(i, ncclBfloat16, "bfloat16", 2, ncclMin, "min"));
    GROUP(all_reduce(i, ncclInt64, "int64", 8, ncclAvg, "avg"));
    GROUP({
        SAY("ncclReduce", WHO "count=%d datatype=uint32 bytes=%zu operation=max root=1", WHO_OF(i), COUNT,
            in_group("ncclReduce", COUNT * 4));
        NCCL(ncclReduce(sends[i], receives[i], COUNT, ncclUint32, ncclMax, 1, comms[i], streams[i]));
    });
    GROUP({
        SAY("ncclReduceScatter", WHO "count=%d datatype=uint64 bytes=%zu operation=sum", WHO_OF(i), COUNT / ranks,
            in_group("ncclReduceScatter", COUNT / ranks * 8));
        NCCL(ncclReduceScatter(sends[i], receives[i], COUNT / ranks, ncclUint64, ncclSum, comms[i], streams[i]));
    });
    GROUP({
        SAY("ncclBroadcast", WHO "count=%d datatype=int32 bytes=%zu root=0", WHO_OF(i), COUNT,
            in_group("ncclBroadcast", COUNT * 4));
        NCCL(ncclBroadcast(sends[i], receives[i], COUNT, ncclInt32, 0, comms[i], streams[i]));
    });
    GROUP({
        SAY("ncclBcast", WHO "count=%d datatype=uint8 bytes=%zu root=1", WHO_OF(i), COUNT, in_group("ncclBcast", COUNT));
        NCCL(ncclBcast(sends[i], COUNT, ncclUint8, 1, comms[i], streams[i]));
    });
    GROUP({
        SAY("ncclAllGather", WHO "count=%d datatype=int8 bytes=%zu", WHO_OF(i), COUNT, in_group("ncclAllGather", COUNT));
        NCCL(ncclAllGather(sends[i], receives[i], COUNT, ncclInt8, comms[i], streams[i]));
    });
    // RCCL makes these of sends and receives, which are not the program's calls.
    GROUP({
        SAY("ncclGather", WHO "count=%d datatype=float32 bytes=%zu root=0", WHO_OF(i), COUNT,
            in_group("ncclGather", COUNT * 4));
        NCCL(ncclGather(sends[i], receives[i], COUNT, ncclFloat32, 0, comms[i], streams[i]));
    });
    GROUP({
        SAY("ncclScatter", WHO "count=%d datatype=float32 bytes=%zu root=0", WHO_OF(i), COUNT,
            in_group("ncclScatter", COUNT * 4));
        NCCL(ncclScatter(sends[i], receives[i], COUNT, ncclFloat32, 0, comms[i], streams[i]));
    });
    GROUP({
        SAY("ncclAllToAll", WHO "count=%d datatype=float32 bytes=%zu", WHO_OF(i), COUNT,
            in_group("ncclAllToAll", COUNT * 4));
        NCCL(ncclAllToAll(sends[i], receives[i], COUNT, ncclFloat32, comms[i], streams[i]));
    });
    GROUP({
        size_t counts[MOST], places[MOST], sum = 0;
        for (int peer = 0; peer < ranks; peer++) {
            counts[peer] = 16;
            places[peer] = sum;
            sum += counts[peer];
        }
        SAY("ncclAllToAllv", WHO "count=%zu datatype=float32 bytes=%zu", WHO_OF(i), sum, in_group("ncclAllToAllv", sum * 4));
        NCCL(ncclAllToAllv(sends[i], counts, places, receives[i], counts, places, ncclFloat32, comms[i], streams[i]));
    });
    // A ring, twice; and a group within a group.
    for (int round = 0; round < 2; round++)
        GROUP({
            send_to(i, (first + i + 1) % ranks, 100 + (size_t)round);
            receive_from(i, (first + i + ranks - 1) % ranks, 100 + (size_t)round);
        });
    group_start();
    SAY("ncclGroupStart", "");
    NCCL(ncclGroupStart());
    EACH all_reduce(i, ncclFloat32, "float32", 4, ncclSum, "sum");
    SAY("ncclGroupEnd", "");
    NCCL(ncclGroupEnd());
    group_end();
    if (local == 1)
        all_reduce(0, ncclFloat32, "float32", 4, ncclSum, "sum");
    // What RCCL refuses is a call as well.
    SAY("ncclAllReduce", WHO "count=%d datatype=other bytes=0 operation=sum result=4", WHO_OF(0), COUNT);
    if (ncclAllReduce(sends[0], receives[0], COUNT, (ncclDataType_t)99, ncclSum, comms[0], streams[0]) != ncclInvalidArgument)
        exit(4);
    EACH HIP(hipStreamSynchronize(streams[i]));
    EACH {
        SAY("ncclCommDestroy", "communicator=%d rank=%d ranks=%d", communicator, first + i, ranks);
        NCCL(ncclCommDestroy(comms[i]));
    }
}

int main(int argc, char **argv)
{
    ncclUniqueId id;
    // One write for each line: several processes print into one file.
    setvbuf(stdout, NULL, _IOLBF, 1 << 16);
    HIP(hipGetDeviceCount(&ranks));
    local = ranks;
    if (argc == 4) {
        ranks = atoi(argv[1]);
        first = atoi(argv[2]);
        local = 1;
    }
    EACH {
        HIP(hipStreamCreate(&streams[i]));
        HIP(hipMalloc((void **)&sends[i], (size_t)COUNT * 8 * MOST));
        HIP(hipMalloc((void **)&receives[i], (size_t)COUNT * 8 * MOST));
    }
    if (first == 0) {
        SAY("ncclGetUniqueId", "communicator=0");
        NCCL(ncclGetUniqueId(&id));
    }
    if (argc == 4 && first == 0) {
        char draft[4096];
        snprintf(draft, sizeof draft, "%s.draft", argv[3]);
        FILE *file = fopen(draft, "wb");
        if (!file || fwrite(&id, sizeof id, 1, file) != 1 || fclose(file) != 0 || rename(draft, argv[3]) != 0)
            return 3;
    } else if (argc == 4) {
        FILE *file;
        while (!(file = fopen(argv[3], "rb")))
            usleep(10000);
        if (fread(&id, sizeof id, 1, file) != 1)
            return 3;
        fclose(file);
    }
    group_start();
    EACH {
        SAY("ncclCommInitRank", "communicator=0 rank=%d ranks=%d", first + i, ranks);
        NCCL(ncclCommInitRank(&comms[i], ranks, id, first + i));
    }
    group_end();
    use();
    if (local == ranks) {
        // Another one: its numbers start anew.
        memset(collectives, 0, sizeof collectives);
        communicator = 1;
        SAY("ncclCommInitAll", "communicator=1 ranks=%d", ranks);
        NCCL(ncclCommInitAll(comms, ranks, NULL));
        GROUP(all_reduce(i, ncclFloat32, "float32", 4, ncclSum, "sum"));
        EACH HIP(hipStreamSynchronize(streams[i]));
        EACH {
            SAY("ncclCommDestroy", "communicator=1 rank=%d ranks=%d", first + i, ranks);
            NCCL(ncclCommDestroy(comms[i]));
        }
    }
    printf("end %d\n", (int)getpid());
    return 0;
}
