// Uses all GPUs through HIP as programs do, and checks everything that comes back.
//
// The configuration gives `spin` 300 us and every other kernel a few. Kernels have no effect on a simulated GPU; what
// is checked is data that was copied or filled, order, and times. Prints `name=number` for the test to compare.
#include <hip/hip_runtime.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "check.h"

__global__ void spin(int *data) { data[threadIdx.x] += 1; }
__global__ void touch(int *data) { data[threadIdx.x] *= 3; }
__global__ void node(int *data) { data[threadIdx.x] -= 1; }

static std::atomic<long> launches{0};

template <typename Kernel> static void launch(Kernel kernel, hipStream_t stream, int *data)
{
    hipLaunchKernelGGL(kernel, dim3(4), dim3(64), 0, stream, data);
    HIP(hipGetLastError());
    launches++;
}

static std::vector<uint8_t> pattern(size_t bytes, unsigned seed)
{
    std::vector<uint8_t> made(bytes);
    for (size_t i = 0; i < bytes; i++)
        made[i] = (uint8_t)((i * 2654435761u + seed * 40503u) >> 9);
    return made;
}

static void check_copies(size_t bytes, unsigned seed)
{
    std::vector<uint8_t> source = pattern(bytes, seed), target(bytes);
    uint8_t *device, *other, *pinned;
    HIP(hipMalloc(&device, bytes));
    HIP(hipMalloc(&other, bytes));
    HIP(hipHostMalloc(&pinned, bytes));
    HIP(hipMemcpy(device, source.data(), bytes, hipMemcpyHostToDevice));
    HIP(hipMemcpy(other, device, bytes, hipMemcpyDeviceToDevice));
    HIP(hipMemcpy(target.data(), other, bytes, hipMemcpyDeviceToHost));
    REQUIRE(source == target);
    hipStream_t stream;
    HIP(hipStreamCreate(&stream));
    memcpy(pinned, source.data(), bytes);
    HIP(hipMemsetAsync(device, 0, bytes, stream));
    HIP(hipMemcpyAsync(device, pinned, bytes, hipMemcpyHostToDevice, stream));
    HIP(hipMemcpyAsync(other, device, bytes, hipMemcpyDeviceToDevice, stream));
    HIP(hipStreamSynchronize(stream));
    memset(pinned, 0, bytes);
    HIP(hipMemcpyAsync(pinned, other, bytes, hipMemcpyDeviceToHost, stream));
    HIP(hipStreamSynchronize(stream));
    REQUIRE(memcmp(pinned, source.data(), bytes) == 0);
    // Unaligned begin and length.
    if (bytes > 100) {
        HIP(hipMemcpy(other + 3, device + 5, bytes - 10, hipMemcpyDeviceToDevice));
        HIP(hipMemcpy(target.data(), other, bytes, hipMemcpyDeviceToHost));
        REQUIRE(memcmp(target.data() + 3, source.data() + 5, bytes - 10) == 0);
        REQUIRE(memcmp(target.data(), source.data(), 3) == 0);
    }
    HIP(hipStreamDestroy(stream));
    HIP(hipFree(device));
    HIP(hipFree(other));
    HIP(hipHostFree(pinned));
}

static void check_fills(size_t bytes)
{
    std::vector<uint8_t> target(bytes);
    uint8_t *device;
    HIP(hipMalloc(&device, bytes));
    HIP(hipMemset(device, 0xa5, bytes));
    HIP(hipMemcpy(target.data(), device, bytes, hipMemcpyDeviceToHost));
    for (size_t i = 0; i < bytes; i++)
        REQUIRE(target[i] == 0xa5);
    // Not aligned. (HIP 5.2 never returns from one that is shorter than what is missing to the alignment.)
    HIP(hipMemset(device + 1, 0x11, bytes - 2));
    HIP(hipMemcpy(target.data(), device, bytes, hipMemcpyDeviceToHost));
    for (size_t i = 0; i < bytes; i++)
        REQUIRE(target[i] == (i == 0 || i == bytes - 1 ? 0xa5 : 0x11));
    HIP(hipMemsetD32((hipDeviceptr_t)device, 0x01020304, bytes / 4));
    HIP(hipMemcpy(target.data(), device, bytes, hipMemcpyDeviceToHost));
    for (size_t i = 0; i < bytes / 4; i++)
        REQUIRE(((uint32_t *)target.data())[i] == 0x01020304);
    HIP(hipFree(device));
}

static void check_rectangles()
{
    const size_t width = 100, height = 37, pitch = 160;
    std::vector<uint8_t> source = pattern(pitch * height, 5), target(pitch * height, 0);
    uint8_t *device, *other;
    size_t device_pitch;
    HIP(hipMallocPitch((void **)&device, &device_pitch, width, height));
    HIP(hipMallocPitch((void **)&other, &device_pitch, width, height));
    HIP(hipMemcpy2D(device, device_pitch, source.data(), pitch, width, height, hipMemcpyHostToDevice));
    HIP(hipMemcpy2D(other, device_pitch, device, device_pitch, width, height, hipMemcpyDeviceToDevice));
    HIP(hipMemcpy2D(target.data(), pitch, other, device_pitch, width, height, hipMemcpyDeviceToHost));
    for (size_t y = 0; y < height; y++) {
        REQUIRE(memcmp(&target[y * pitch], &source[y * pitch], width) == 0);
        REQUIRE(target[y * pitch + width] == 0);
    }
    HIP(hipMemset2D(device, device_pitch, 0x5a, width, height));
    HIP(hipMemcpy2D(target.data(), pitch, device, device_pitch, width, height, hipMemcpyDeviceToHost));
    for (size_t y = 0; y < height; y++)
        for (size_t x = 0; x < width; x++)
            REQUIRE(target[y * pitch + x] == 0x5a);
    HIP(hipFree(device));
    HIP(hipFree(other));
}

static void check_events(int *data)
{
    hipEvent_t before, after;
    hipStream_t stream;
    HIP(hipStreamCreate(&stream));
    HIP(hipEventCreate(&before));
    HIP(hipEventCreate(&after));
    launch(touch, stream, data);
    HIP(hipEventRecord(before, stream));
    for (int i = 0; i < 3; i++)
        launch(spin, stream, data);
    HIP(hipEventRecord(after, stream));
    HIP(hipEventSynchronize(after));
    float milliseconds = 0;
    HIP(hipEventElapsedTime(&milliseconds, before, after));
    // Three kernels of 300 us; between them nothing is promised.
    REQUIRE(milliseconds >= 0.899f);
    printf("elapsed_us=%d\n", (int)(milliseconds * 1000 + 0.5f));
    HIP(hipEventDestroy(before));
    HIP(hipEventDestroy(after));
    HIP(hipStreamDestroy(stream));
}

static void on_stream(hipStream_t, hipError_t status, void *counter)
{
    if (status == hipSuccess)
        ++*(std::atomic<int> *)counter;
}

static void check_streams(int *data)
{
    hipStream_t streams[4];
    hipEvent_t event;
    std::atomic<int> called{0};
    HIP(hipEventCreate(&event));
    for (auto &stream : streams)
        HIP(hipStreamCreate(&stream));
    for (int round = 0; round < 5; round++)
        for (auto &stream : streams) {
            launch(touch, stream, data);
            HIP(hipStreamAddCallback(stream, on_stream, &called, 0));
        }
    HIP(hipEventRecord(event, streams[0]));
    HIP(hipStreamWaitEvent(streams[1], event, 0));
    launch(touch, streams[1], data);
    HIP(hipDeviceSynchronize());
    for (auto &stream : streams)
        // HIP 5.2 may hear a little later of what it has waited for.
        while (hipStreamQuery(stream) == hipErrorNotReady)
            std::this_thread::yield();
    REQUIRE(called == 20);
    for (auto &stream : streams)
        HIP(hipStreamDestroy(stream));
    HIP(hipEventDestroy(event));
}

static void check_graph(int *data, int nodes)
{
    hipStream_t stream;
    hipGraph_t graph;
    hipGraphExec_t executable;
    // A blocking one would forbid the legacy stream to all other threads while it captures.
    HIP(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
    HIP(hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal));
    for (int i = 0; i < nodes; i++)
        hipLaunchKernelGGL(node, dim3(1), dim3(64), 0, stream, data);
    HIP(hipStreamEndCapture(stream, &graph));
    HIP(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
    for (int i = 0; i < 2; i++) {
        HIP(hipGraphLaunch(executable, stream));
        HIP(hipStreamSynchronize(stream));
        launches += nodes;
    }
    HIP(hipGraphExecDestroy(executable));
    HIP(hipGraphDestroy(graph));
    HIP(hipStreamDestroy(stream));
}

static void check_async_allocation()
{
    hipStream_t stream;
    HIP(hipStreamCreate(&stream));
    int supported = 0;
    int device = 0;
    HIP(hipGetDevice(&device));
    HIP(hipDeviceGetAttribute(&supported, hipDeviceAttributeMemoryPoolsSupported, device));
    if (supported) {
        std::vector<uint8_t> source = pattern(5000, 3), target(5000);
        void *place;
        HIP(hipMallocAsync(&place, source.size(), stream));
        HIP(hipMemcpyAsync(place, source.data(), source.size(), hipMemcpyHostToDevice, stream));
        HIP(hipMemcpyAsync(target.data(), place, source.size(), hipMemcpyDeviceToHost, stream));
        HIP(hipFreeAsync(place, stream));
        HIP(hipStreamSynchronize(stream));
        REQUIRE(source == target);
    }
    printf("pools=%d\n", supported);
    HIP(hipStreamDestroy(stream));
}

static void check_peers(int count)
{
    std::vector<uint8_t> source = pattern(70000, 9), target(source.size());
    for (int device = 0; device + 1 < count; device++) {
        uint8_t *here, *there;
        HIP(hipSetDevice(device));
        int can = 0;
        HIP(hipDeviceCanAccessPeer(&can, device, device + 1));
        if (can && hipDeviceEnablePeerAccess(device + 1, 0) != hipSuccess)
            HIP(hipGetLastError());
        HIP(hipMalloc(&here, source.size()));
        HIP(hipSetDevice(device + 1));
        HIP(hipMalloc(&there, source.size()));
        HIP(hipMemcpy(here, source.data(), source.size(), hipMemcpyHostToDevice));
        HIP(hipMemcpyPeer(there, device + 1, here, device, source.size()));
        std::fill(target.begin(), target.end(), 0);
        HIP(hipMemcpy(target.data(), there, target.size(), hipMemcpyDeviceToHost));
        REQUIRE(source == target);
        HIP(hipFree(here));
        HIP(hipFree(there));
    }
}

static void on_device(int device)
{
    HIP(hipSetDevice(device));
    int *data;
    HIP(hipMalloc(&data, 4096));
    size_t free_bytes, total_bytes;
    HIP(hipMemGetInfo(&free_bytes, &total_bytes));
    REQUIRE(free_bytes > 0 && free_bytes < total_bytes);
    for (size_t bytes : {(size_t)1, (size_t)4, (size_t)1000, (size_t)65536, (size_t)3000001, (size_t)9 << 20})
        check_copies(bytes, (unsigned)(bytes + (size_t)device));
    for (size_t bytes : {(size_t)64, (size_t)1000, (size_t)1 << 20})
        check_fills(bytes);
    check_rectangles();
    check_streams(data);
    check_async_allocation();
    HIP(hipFree(data));
}

// Freed when no thread destroys a stream: HIP 5.2's hipFree walks the list of the device's streams without a lock, and crashes then now and then.
static std::mutex freed_later_lock;
static std::vector<int *> freed_later;

// Not beside on_device(): HIP 7 may refuse the legacy stream to one thread while another captures, whatever the mode.
static void graphs_on_device(int device)
{
    HIP(hipSetDevice(device));
    int *data;
    HIP(hipMalloc(&data, 4096));
    check_graph(data, device == 0 ? 500 : 20);
    std::lock_guard<std::mutex> lock(freed_later_lock);
    freed_later.push_back(data);
}

int main()
{
    int count = 0;
    HIP(hipGetDeviceCount(&count));
    hipDeviceProp_t properties;
    HIP(hipGetDeviceProperties(&properties, 0));
    printf("architecture %s\n", properties.gcnArchName);
    int *data;
    HIP(hipMalloc(&data, 4096));
    check_events(data);
    HIP(hipFree(data));
    for (auto check : {on_device, graphs_on_device}) {
        for (int device = 0; device < count; device++)
            check(device);
        // All devices at once, each from a thread of its own.
        std::vector<std::thread> threads;
        for (int i = 0; i < (count > 1 ? count : 2); i++)
            threads.emplace_back(check, i % count);
        for (auto &thread : threads)
            thread.join();
    }
    for (int *later : freed_later)
        HIP(hipFree(later));
    check_peers(count);
    printf("devices=%d\nlaunches=%ld\n", count, launches.load());
    return 0;
}
