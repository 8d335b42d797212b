// Gives GPUs work of all kinds through HIP, so that every operation can be told from the others: each kernel that is launched alone has a
// grid of its own. What the kernels compute is of no interest.
//
//     hip_ops work NODES LAUNCHES     kernels, copies and fills on two streams of each GPU, and a graph of NODES kernels
//     hip_ops graphs NODES TIMES      as many graphs as TIMES, each launched once and destroyed as soon as that is over
//     hip_ops streams WHEN TIMES      as many streams as TIMES on each of two threads, destroyed as soon as a graph on it is over (`idle`) or was
//                                     launched (`running`); with `own` as many threads instead, each with the stream that HIP makes for it
//     hip_ops storm COUNT             COUNT kernels on each of two streams of each GPU, from two threads for each GPU
//     hip_ops end HOW                 two hundred kernels that nobody waits for, and then the end of the process
//     hip_ops hang                    the same, and a kernel that never ends
//     hip_ops fork                    a child that uses the processor, while the parent goes on
//     hip_ops child                   a child that works with the GPU, of a parent that never does
//     hip_ops counted                 a parent that counts GPUs by the HSA runtime and shuts that down, then two children that work with the GPU
//     hip_ops again                   the same count, then work in the same process, for which nobody waits
//     hip_ops asks                    a child of a parent that has worked with the GPU asks HIP for its version
//     hip_ops pause                   fifty kernels, and a pause of the profiler around thirty of them and a copy
//     hip_ops tracer                  another tool that takes the place for HIP's tracer
//
// Prints `name=number` for what a test compares.
#include <hip/hip_runtime.h>

#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "check.h"

__global__ void spin(int *data) { data[threadIdx.x] += 1; }
__global__ void touch(int *data) { data[threadIdx.x] *= 3; }
__global__ void node(int *data) { data[threadIdx.x] -= 1; }
__global__ void endless(int *data) { data[threadIdx.x] -= 2; }

static std::atomic<unsigned> launches{0};

template <typename Kernel> static void launch(Kernel kernel, hipStream_t stream, int *data)
{
    hipLaunchKernelGGL(kernel, dim3(++launches), dim3(64), 0, stream, data);
    HIP(hipGetLastError());
}

static void check_elapsed(int *data)
{
    hipEvent_t before, after;
    HIP(hipEventCreate(&before));
    HIP(hipEventCreate(&after));
    HIP(hipEventRecord(before, nullptr));
    launch(spin, nullptr, data);
    HIP(hipEventRecord(after, nullptr));
    HIP(hipEventSynchronize(after));
    float milliseconds = 0;
    HIP(hipEventElapsedTime(&milliseconds, before, after));
    REQUIRE(milliseconds >= 0.2999f);
    HIP(hipEventDestroy(before));
    HIP(hipEventDestroy(after));
}

// Every size occurs once on a GPU.
static void move_data(int device, hipStream_t stream)
{
    const size_t most = 1 << 20;
    uint8_t *first, *second, *pinned;
    HIP(hipMalloc(&first, most));
    HIP(hipMalloc(&second, most));
    HIP(hipHostMalloc(&pinned, most));
    std::vector<uint8_t> pageable(most);
    for (size_t i = 0; i < most; i++)
        pinned[i] = (uint8_t)(i * 7 + i / 251 + (size_t)device);
    std::vector<uint8_t> source(pinned, pinned + most);
    for (size_t i = 0; i < 20; i++) {
        size_t bytes = 40000 + 4096 * i;
        HIP(hipMemcpyAsync(first, pinned, bytes, hipMemcpyHostToDevice, stream));
        HIP(hipMemcpyAsync(second, first, bytes + 4, hipMemcpyDeviceToDevice, stream));
        HIP(hipMemcpyAsync(pinned, second, bytes + 8, hipMemcpyDeviceToHost, stream));
        HIP(hipMemsetAsync(second, (int)i, bytes + 12, stream));
        HIP(hipStreamSynchronize(stream));
    }
    memcpy(pageable.data(), source.data(), most);
    for (size_t i = 0; i < 5; i++) {
        size_t bytes = 200000 + 4096 * i;
        HIP(hipMemcpy(first, source.data(), bytes, hipMemcpyHostToDevice));
        HIP(hipMemcpy(pageable.data(), first, bytes + 4, hipMemcpyDeviceToHost));
        REQUIRE(memcmp(pageable.data(), source.data(), bytes) == 0);
    }
    HIP(hipHostFree(pinned));
    HIP(hipFree(first));
    HIP(hipFree(second));
}

static void launch_graph(hipStream_t stream, int *data, int nodes, int times)
{
    hipGraph_t graph;
    hipGraphExec_t executable;
    HIP(hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal));
    for (int i = 0; i < nodes; i++)
        hipLaunchKernelGGL(node, dim3(1), dim3(64), 0, stream, data);
    HIP(hipStreamEndCapture(stream, &graph));
    HIP(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
    for (int i = 0; i < times; i++) {
        HIP(hipGraphLaunch(executable, stream));
        HIP(hipStreamSynchronize(stream));
    }
    HIP(hipGraphExecDestroy(executable));
    HIP(hipGraphDestroy(graph));
}

static void pass_graphs(int nodes, int times)
{
    int *data;
    hipStream_t stream;
    HIP(hipMalloc(&data, 4096));
    HIP(hipStreamCreate(&stream));
    for (int i = 0; i < times; i++)
        launch_graph(stream, data, nodes, 1);
    HIP(hipFree(data));
}

// A graph of ten kernels, destroyed by nobody.
static hipGraphExec_t make_graph(int *data)
{
    hipStream_t stream;
    hipGraph_t graph;
    hipGraphExec_t executable;
    HIP(hipStreamCreate(&stream));
    HIP(hipStreamBeginCapture(stream, hipStreamCaptureModeThreadLocal));
    for (int i = 0; i < 10; i++)
        hipLaunchKernelGGL(node, dim3(1), dim3(64), 0, stream, data);
    HIP(hipStreamEndCapture(stream, &graph));
    HIP(hipGraphInstantiate(&executable, graph, nullptr, nullptr, 0));
    return executable;
}

static void pass_streams(const char *when, int times)
{
    int *data;
    HIP(hipMalloc(&data, 4096));
    auto pass = [&] {
        hipGraphExec_t graph = make_graph(data);
        auto pass_own = [&] {
            HIP(hipGraphLaunch(graph, hipStreamPerThread));
            HIP(hipStreamSynchronize(hipStreamPerThread));
        };
        for (int i = 0; i < times; i++) {
            if (!strcmp(when, "own")) {
                std::thread(pass_own).join();
                continue;
            }
            hipStream_t stream;
            HIP(hipStreamCreate(&stream));
            HIP(hipGraphLaunch(graph, stream));
            if (!strcmp(when, "idle"))
                HIP(hipStreamSynchronize(stream));
            HIP(hipStreamDestroy(stream));
        }
    };
    std::thread other(pass);
    pass();
    other.join();
}

static void work(int nodes, int times)
{
    int count = 0;
    HIP(hipGetDeviceCount(&count));
    int *data;
    for (int device = 0; device < count; device++) {
        HIP(hipSetDevice(device));
        hipStream_t streams[2];
        HIP(hipMalloc(&data, 4096));
        check_elapsed(data);
        for (auto &stream : streams)
            HIP(hipStreamCreate(&stream));
        for (int round = 0; round < 50; round++)
            for (auto &stream : streams)
                launch(touch, stream, data);
        move_data(device, streams[1]);
        HIP(hipDeviceSynchronize());
        for (auto &stream : streams)
            HIP(hipStreamDestroy(stream));
        HIP(hipFree(data));
    }
    HIP(hipSetDevice(0));
    HIP(hipMalloc(&data, 4096));
    if (nodes > 0) {
        hipStream_t stream;
        HIP(hipStreamCreate(&stream));
        launch_graph(stream, data, nodes, times);
        HIP(hipStreamDestroy(stream));
    }
    HIP(hipFree(data));
}

static void storm(int count)
{
    int devices = 0;
    HIP(hipGetDeviceCount(&devices));
    std::vector<std::thread> threads;
    for (int i = 0; i < 2 * devices; i++)
        threads.emplace_back([=] {
            HIP(hipSetDevice(i / 2));
            // Never freed: HIP 5.4 now and then crashes when several threads free memory.
            int *data;
            hipStream_t stream;
            HIP(hipMalloc(&data, 4096));
            HIP(hipStreamCreate(&stream));
            for (int round = 0; round < count; round++) {
                launch(touch, stream, data);
                if (round % 500 == 499)
                    HIP(hipStreamSynchronize(stream));
            }
            HIP(hipStreamSynchronize(stream));
        });
    for (auto &thread : threads)
        thread.join();
}

// One kernel whose record is there, and two hundred that nobody waits for.
static int *begin_the_end()
{
    int *data;
    HIP(hipMalloc(&data, 4096));
    launch(touch, nullptr, data);
    HIP(hipDeviceSynchronize());
    for (int i = 0; i < 200; i++)
        launch(touch, nullptr, data);
    printf("launched\n");
    fflush(stdout);
    return data;
}

static int end(const char *how, char **self)
{
    begin_the_end();
    if (!strcmp(how, "exit"))
        exit(0);
    if (!strcmp(how, "_exit"))
        _exit(0);
    if (!strcmp(how, "quick_exit"))
        quick_exit(0);
    if (!strcmp(how, "exec"))
        execl(self[0], self[0], "nothing", (char *)nullptr);
    if (!strcmp(how, "kill"))
        raise(SIGKILL);
    if (!strcmp(how, "terminate"))
        raise(SIGTERM);
    return 0;
}

static void pause_profiler()
{
    const size_t bytes = 4096;
    using Gate = int (*)(uint64_t thread);
    auto pause = (Gate)dlsym(RTLD_DEFAULT, "roctxProfilerPause");
    auto resume = (Gate)dlsym(RTLD_DEFAULT, "roctxProfilerResume");
    REQUIRE(pause && resume);
    int *data, *host;
    HIP(hipMalloc(&data, bytes));
    HIP(hipHostMalloc(&host, bytes));
    for (int i = 0; i < 50; i++) {
        if (i == 10)
            pause(0);
        if (i == 20)
            HIP(hipMemcpyAsync(data, host, bytes, hipMemcpyHostToDevice, nullptr));
        if (i == 40)
            resume(0);
        launch(touch, nullptr, data);
    }
    HIP(hipDeviceSynchronize());
}

static void fork_child(char **self)
{
    int *data;
    HIP(hipMalloc(&data, 4096));
    launch(touch, nullptr, data);
    HIP(hipDeviceSynchronize());
    pid_t child = fork();
    if (child == 0) {
        volatile unsigned sum = 0;
        for (unsigned i = 0; i < 400000000u; i++)
            sum += i;
        _exit(7);
    }
    for (int i = 0; i < 100; i++)
        launch(touch, nullptr, data);
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
    HIP(hipDeviceSynchronize());
    HIP(hipFree(data));
}

static void touch_and_leave()
{
    int *data;
    HIP(hipMalloc(&data, 4096));
    for (int i = 0; i < 50; i++)
        launch(touch, nullptr, data);
}

static void touch_often()
{
    touch_and_leave();
    HIP(hipDeviceSynchronize());
}

static void in_child(void (*work)())
{
    pid_t child = fork();
    if (child == 0) {
        work();
        exit(7);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

// As programs do that start a process for each GPU: HIP itself does not survive a fork.
static void count_gpus()
{
    for (const char *name : {"hsa_init", "hsa_shut_down"}) {
        auto call = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, name));
        REQUIRE(call && call() == 0);
    }
}

static void ask_version()
{
    int version = 0;
    HIP(hipDriverGetVersion(&version));
    // HIP's own end crashes in such a child, with or without a profiler.
    _exit(7);
}

extern "C" __attribute__((weak)) void hipRegisterTracerCallback(int (*callback)(uint32_t, uint32_t, void *));

static std::atomic<unsigned> heard{0};

static int on_event(uint32_t, uint32_t, void *)
{
    heard++;
    return 1;
}

static void other_tracer()
{
    REQUIRE(hipRegisterTracerCallback);
    hipRegisterTracerCallback(on_event);
    work(0, 0);
    REQUIRE(heard > 0);
}

int main(int count, char **words)
{
    const char *what = count > 1 ? words[1] : "";
    if (!strcmp(what, "work"))
        work(atoi(words[2]), atoi(words[3]));
    else if (!strcmp(what, "graphs"))
        pass_graphs(atoi(words[2]), atoi(words[3]));
    else if (!strcmp(what, "streams"))
        pass_streams(words[2], atoi(words[3]));
    else if (!strcmp(what, "storm"))
        storm(atoi(words[2]));
    else if (!strcmp(what, "end"))
        return end(words[2], words);
    else if (!strcmp(what, "hang")) {
        int *data = begin_the_end();
        launch(endless, nullptr, data);
    } else if (!strcmp(what, "pause"))
        pause_profiler();
    else if (!strcmp(what, "fork"))
        fork_child(words);
    else if (!strcmp(what, "child"))
        in_child(touch_often);
    else if (!strcmp(what, "counted")) {
        count_gpus();
        in_child(touch_often);
        in_child(touch_often);
    } else if (!strcmp(what, "again")) {
        count_gpus();
        touch_and_leave();
    } else if (!strcmp(what, "asks")) {
        touch_often();
        in_child(ask_version);
    }
    else if (!strcmp(what, "tracer"))
        other_tracer();
    printf("launches=%u\n", launches.load());
    return 0;
}
