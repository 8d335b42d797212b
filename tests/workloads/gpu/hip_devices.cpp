// Works on one of two GPUs, waits for nothing, and returns: hip_devices WHAT
//
//     looks     asks both how much memory they have, then ten kernels on the first
//     second    ten kernels on the second
//     stream    ten fills on a stream of the second, while the first is the thread's
//     reused    the same, but a stream of the first had been destroyed before, whose handle the other may have
#include <hip/hip_runtime.h>

#include <cstring>

#include "check.h"

__global__ void touch(int *data) { data[threadIdx.x] += 1; }

static int *data;

static void launch()
{
    HIP(hipMalloc(&data, 4096));
    for (int i = 0; i < 10; i++)
        hipLaunchKernelGGL(touch, dim3(1), dim3(64), 0, nullptr, data);
    HIP(hipGetLastError());
}

static hipStream_t stream_of(int gpu)
{
    hipStream_t stream;
    HIP(hipSetDevice(gpu));
    HIP(hipMalloc(&data, 4096));
    HIP(hipStreamCreate(&stream));
    HIP(hipSetDevice(0));
    return stream;
}

static void fill(hipStream_t stream)
{
    for (int i = 0; i < 10; i++)
        HIP(hipMemsetAsync(data, i, 4096, stream));
}

int main(int, char **words)
{
    const char *what = words[1];
    if (!strcmp(what, "looks")) {
        for (int gpu = 1; gpu >= 0; gpu--) {
            size_t available, total;
            HIP(hipSetDevice(gpu));
            HIP(hipMemGetInfo(&available, &total));
        }
        launch();
    } else if (!strcmp(what, "second")) {
        HIP(hipSetDevice(1));
        launch();
    } else if (!strcmp(what, "stream")) {
        fill(stream_of(1));
    } else if (!strcmp(what, "reused")) {
        hipStream_t first = stream_of(0);
        HIP(hipMemsetAsync(data, 1, 4096, first));
        HIP(hipStreamDestroy(first));
        fill(stream_of(1));
    }
    printf("done=1\n");
    return 0;
}
