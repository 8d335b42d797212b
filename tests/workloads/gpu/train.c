// Trains on GPUs as programs do: each step computes on the processor, launches kernels and sums over all ranks. Ranges of roctx say what it does.
//
//     train CODE-OBJECT STEPS GPU RANKS RANK FILE     rank RANK of RANKS, which uses this GPU; rank 0 writes the communicator's id to the file
#include <hip/hip_runtime_api.h>
#include <rccl/rccl.h>
#include <roctracer/roctx.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

enum { COUNT = 1 << 16, LAYERS = 4 };
static volatile double sink;

// Some milliseconds of processor time.
__attribute__((noinline)) static void load_batch(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    long end = now.tv_sec * 1000 + now.tv_nsec / 1000000 + 20;
    do {
        for (int i = 1; i < 10000; i++)
            sink += 1.0 / i;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    } while (now.tv_sec * 1000 + now.tv_nsec / 1000000 < end);
}

static void share_id(ncclUniqueId *id, int rank, const char *path)
{
    char draft[4096];
    FILE *file;
    snprintf(draft, sizeof draft, "%s.draft", path);
    if (rank == 0) {
        CHECK(ncclGetUniqueId(id));
        file = fopen(draft, "wb");
        if (!file || fwrite(id, sizeof *id, 1, file) != 1 || fclose(file) != 0 || rename(draft, path) != 0)
            exit(3);
        return;
    }
    while (!(file = fopen(path, "rb")))
        usleep(10000);
    if (fread(id, sizeof *id, 1, file) != 1)
        exit(3);
    fclose(file);
}

int main(int count, char **words)
{
    if (count != 7)
        return 2;
    int steps = atoi(words[2]), gpu = atoi(words[3]), ranks = atoi(words[4]), rank = atoi(words[5]);
    ncclUniqueId id;
    ncclComm_t communicator;
    hipStream_t stream;
    hipModule_t module;
    hipFunction_t layer;
    void *data;
    CHECK(hipSetDevice(gpu));
    CHECK(hipStreamCreate(&stream));
    CHECK(hipModuleLoad(&module, words[1]));
    CHECK(hipModuleGetFunction(&layer, module, "long_kernel"));
    CHECK(hipMalloc(&data, COUNT * sizeof(float)));
    share_id(&id, rank, words[6]);
    CHECK(ncclCommInitRank(&communicator, ranks, id, rank));
    for (int step = 0; step < steps; step++) {
        char name[32];
        snprintf(name, sizeof name, "step %d", step);
        roctxRangePushA(name);
        roctxRangePushA("load");
        load_batch();
        roctxRangePop();
        roctxRangePushA("forward");
        void *parameters[] = {&data};
        for (int i = 0; i < LAYERS; i++)
            CHECK(hipModuleLaunchKernel(layer, 64, 1, 1, 64, 1, 1, 0, stream, parameters, NULL));
        roctxRangePop();
        roctxRangePushA("sum");
        CHECK(ncclAllReduce(data, data, COUNT, ncclFloat, ncclSum, communicator, stream));
        CHECK(hipStreamSynchronize(stream));
        roctxRangePop();
        roctxRangePop();
    }
    CHECK(ncclCommDestroy(communicator));
    printf("steps=%d\n", steps);
    return 0;
}
