// Very many kernels on all GPUs, from many threads: hip_flood STREAMS THREADS COUNT BATCH
//
// Each GPU has STREAMS streams and THREADS threads, and each of its threads launches COUNT kernels on each of its streams. A thread waits
// for its GPU's streams after every BATCH of its launches, or, if that is 0, at its end only. Prints `launches=`, and `peak_kb=`, the most memory that the program had.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

#include "check.h"

__global__ void touch(int *data) { data[threadIdx.x] *= 3; }

static long peak_kb()
{
    long kb = 0;
    char line[256];
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status) && sscanf(line, "VmHWM: %ld", &kb) != 1)
        ;
    return kb;
}

static void flood(int device, const std::vector<hipStream_t> &streams, long count, long batch)
{
    HIP(hipSetDevice(device));
    long launched = 0;
    auto wait = [&] {
        for (hipStream_t stream : streams)
            HIP(hipStreamSynchronize(stream));
    };
    for (long i = 0; i < count; i++)
        for (hipStream_t stream : streams) {
            hipLaunchKernelGGL(touch, dim3(4), dim3(64), 0, stream, nullptr);
            if (batch > 0 && ++launched % batch == 0)
                wait();
        }
    HIP(hipGetLastError());
    wait();
}

int main(int argc, char **words)
{
    REQUIRE(argc == 5);
    int streams = atoi(words[1]), threads = atoi(words[2]), devices = 0;
    long count = atol(words[3]), batch = atol(words[4]);
    HIP(hipGetDeviceCount(&devices));
    std::vector<std::vector<hipStream_t>> all(devices, std::vector<hipStream_t>(streams));
    std::vector<std::thread> running;
    for (int device = 0; device < devices; device++) {
        HIP(hipSetDevice(device));
        for (hipStream_t &stream : all[device])
            HIP(hipStreamCreate(&stream));
        for (int i = 0; i < threads; i++)
            running.emplace_back(flood, device, std::cref(all[device]), count, batch);
    }
    for (auto &thread : running)
        thread.join();
    printf("launches=%ld\npeak_kb=%ld\n", devices * streams * threads * count, peak_kb());
    return 0;
}
