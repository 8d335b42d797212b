// A program with one habit, good or bad, that a profiler can name.
//
// hip_habits HABIT ROUNDS SIZE
//
// What SIZE is depends on the habit: microseconds, bytes, kernels. Prints `habit_ns`: from the first to the last round, in CLOCK_BOOTTIME.
#include <hip/hip_runtime.h>

#include <cstring>
#include <functional>
#include <map>
#include <pthread.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include "check.h"

#define NOINLINE __attribute__((noinline))

__global__ void long_step(int *data) { data[threadIdx.x] += 1; }
__global__ void step(int *data) { data[threadIdx.x] += 2; }
__global__ void brief(int *data) { data[threadIdx.x] += 7; }
__global__ void tiny(int *data) { data[threadIdx.x] += 3; }
__global__ void tiny_too(int *data) { data[threadIdx.x] += 4; }
__global__ void ncclDevKernel_AllReduce_Sum(int *data) { data[threadIdx.x] += 5; }
__global__ void rcclGenericKernel(int *data) { data[threadIdx.x] += 6; }

typedef void (*Kernel)(int *);

static int rounds;
static long long size;
static int *data;
static volatile unsigned long long sink;

static void launch(Kernel kernel, hipStream_t stream = nullptr, int *on = data) {
    hipLaunchKernelGGL(kernel, dim3(1), dim3(64), 0, stream, on);
}

static hipStream_t make_stream() {
    hipStream_t stream;
    HIP(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
    return stream;
}

static char *pinned(long long bytes) {
    void *memory;
    HIP(hipHostMalloc(&memory, (size_t)bytes, 0));
    memset(memory, 1, (size_t)bytes);
    return (char *)memory;
}

static char *on_gpu(long long bytes) {
    void *memory;
    HIP(hipMalloc(&memory, (size_t)bytes));
    return (char *)memory;
}

// By CPU time, so that a busy machine does not shorten it; in whichever function it stands.
#define COMPUTE(microseconds)                                                                     \
    do {                                                                                          \
        double end_ = now_ns(CLOCK_THREAD_CPUTIME_ID) + (double)(microseconds) * 1e3;             \
        while (now_ns(CLOCK_THREAD_CPUTIME_ID) < end_)                                            \
            for (int i_ = 0; i_ < 20000; i_++)                                                    \
                sink = sink * 31 + 7;                                                             \
    } while (0)

static timespec as_time(long long microseconds) {
    return {(time_t)(microseconds / 1000000), (long)(microseconds % 1000000) * 1000};
}

#define NAP(microseconds)                        \
    do {                                         \
        timespec time_ = as_time(microseconds);  \
        nanosleep(&time_, nullptr);              \
    } while (0)

NOINLINE static void prepares_batch() { COMPUTE(size); }
NOINLINE static void parses_records() { COMPUTE(size); }
NOINLINE static void naps_between() { NAP(size); }
NOINLINE static void reads_settings() { COMPUTE(size); }
NOINLINE static void waits_for_licence() { NAP(size); }
NOINLINE static void writes_results() { COMPUTE(size); }
NOINLINE static void waits_for_disk() { NAP(size); }

static void code() {
    for (int i = 0; i < rounds; i++) {
        prepares_batch();
        launch(long_step);
        HIP(hipDeviceSynchronize());
    }
}

// The same function computes and launches.
NOINLINE static void computes_and_launches() {
    COMPUTE(size);
    hipLaunchKernelGGL(long_step, dim3(1), dim3(64), 0, nullptr, data);
    HIP(hipDeviceSynchronize());
}

static void code_inline() {
    for (int i = 0; i < rounds; i++)
        computes_and_launches();
}

static void code_of_several() {
    hipStream_t stream = make_stream();
    for (int i = 0; i < rounds; i++) {
        parses_records();
        for (int j = 0; j < 5; j++)
            launch(step, stream);
        HIP(hipStreamSynchronize(stream));
    }
}

static void nap_between() {
    for (int i = 0; i < rounds; i++) {
        naps_between();
        launch(long_step);
        HIP(hipDeviceSynchronize());
    }
}

// Another thread gives the go, on a condition.
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static int given;

NOINLINE static void waits_for_go(int round) {
    pthread_mutex_lock(&mutex);
    while (given <= round)
        pthread_cond_wait(&changed, &mutex);
    pthread_mutex_unlock(&mutex);
}

static void wait_for_thread() {
    std::thread giver([] {
        for (int i = 0; i < rounds; i++) {
            NAP(size);
            pthread_mutex_lock(&mutex);
            given++;
            pthread_cond_broadcast(&changed);
            pthread_mutex_unlock(&mutex);
        }
    });
    for (int i = 0; i < rounds; i++) {
        waits_for_go(i);
        launch(step);
    }
    giver.join();
}

// Data comes through a pipe, or a socket, from a thread that takes its time.
static int ends[2];

NOINLINE static void reads_data() {
    char text[4];
    REQUIRE(read(ends[0], text, sizeof text) == 4);
}

static void input() {
    REQUIRE(pipe(ends) == 0);
    std::thread writer([] {
        for (int i = 0; i < rounds; i++) {
            NAP(size);
            REQUIRE(write(ends[1], "data", 4) == 4);
        }
    });
    for (int i = 0; i < rounds; i++) {
        reads_data();
        launch(long_step);
        launch(long_step);
    }
    writer.join();
}

NOINLINE static void waits_each_step(hipStream_t stream) { HIP(hipStreamSynchronize(stream)); }
NOINLINE static void checks_loss() { HIP(hipDeviceSynchronize()); }

static void sync_each() {
    hipStream_t stream = make_stream();
    for (int i = 0; i < rounds; i++) {
        launch(brief, stream);
        waits_each_step(stream);
    }
}

static void sync_each_few() {
    for (int i = 0; i < rounds; i++) {
        for (long long j = 0; j < size; j++)
            launch(brief);
        checks_loss();
        COMPUTE(200);
    }
}

// As a framework does that looks at its arguments before each launch.
NOINLINE static void launches_tiny(Kernel kernel, hipStream_t stream) {
    for (long long i = 0; i < size; i++)
        sink = sink * 31 + 7;
    launch(kernel, stream);
}

static void tiny_kernels() {
    for (int i = 0; i < rounds; i++)
        launches_tiny(tiny, nullptr);
}

static void tiny_kernels_in_turn() {
    hipStream_t stream = make_stream();
    for (int i = 0; i < rounds; i++) {
        launches_tiny(tiny, stream);
        launches_tiny(tiny_too, stream);
    }
}

NOINLINE static void uses_temporary(Kernel kernel) {
    void *temporary;
    HIP(hipMalloc(&temporary, (size_t)size));
    launch(kernel, nullptr, (int *)temporary);
    HIP(hipFree(temporary));
}

static void allocate_each() {
    for (int i = 0; i < rounds; i++)
        uses_temporary(brief);
}

NOINLINE static void gives_back(void *first, void *second) {
    HIP(hipFree(first));
    HIP(hipFree(second));
}

static void allocate_several() {
    for (int i = 0; i < rounds; i++) {
        char *first = on_gpu(size), *second = on_gpu(2 * size);
        launch(long_step, nullptr, (int *)first);
        gives_back(first, second);
    }
}

NOINLINE static void fetches(char *to, char *from) { HIP(hipMemcpy(to, from, (size_t)size, hipMemcpyDeviceToHost)); }
NOINLINE static void sends(char *to, char *from) { HIP(hipMemcpy(to, from, (size_t)size, hipMemcpyHostToDevice)); }

static void fetch_each() {
    char *host = pinned(size), *gpu = on_gpu(size);
    for (int i = 0; i < rounds; i++) {
        launch(step);
        fetches(host, gpu);
    }
}

static void send_each() {
    std::vector<char> host((size_t)size, 1);
    char *gpu = on_gpu(size);
    for (int i = 0; i < rounds; i++) {
        sends(gpu, host.data());
        launch(step);
        launch(step);
    }
}

NOINLINE static void sends_pageable(char *to, char *from, hipStream_t stream) {
    HIP(hipMemcpyAsync(to, from, (size_t)size, hipMemcpyHostToDevice, stream));
}
NOINLINE static void fetches_pageable(char *to, char *from, hipStream_t stream) {
    HIP(hipMemcpyAsync(to, from, (size_t)size, hipMemcpyDeviceToHost, stream));
}

static void pageable_to() {
    std::vector<char> host((size_t)size, 1);
    char *gpu = on_gpu(size);
    hipStream_t stream = make_stream();
    for (int i = 0; i < rounds; i++) {
        sends_pageable(gpu, host.data(), stream);
        launch(step, stream);
    }
}

static void pageable_from() {
    std::vector<char> host((size_t)size, 1);
    char *gpu = on_gpu(size);
    hipStream_t stream = make_stream();
    for (int i = 0; i < rounds; i++) {
        launch(step, stream);
        fetches_pageable(host.data(), gpu, stream);
    }
}

// Copies in the same stream as the kernels.
static void copies_in_stream(hipMemcpyKind kind, int copies, Kernel kernel) {
    char *host = pinned(size), *gpu = on_gpu(size);
    hipStream_t stream = make_stream();
    bool is_to_gpu = kind == hipMemcpyHostToDevice;
    for (int i = 0; i < rounds; i++) {
        for (int j = 0; j < copies; j++)
            HIP(hipMemcpyAsync(is_to_gpu ? gpu : host, is_to_gpu ? host : gpu, (size_t)size, kind, stream));
        launch(kernel, stream);
        // Never far ahead: the runtime's own limits are not the subject.
        if (i % 20 == 19)
            HIP(hipStreamSynchronize(stream));
    }
}

static void exposed_to() { copies_in_stream(hipMemcpyHostToDevice, 1, step); }
static void exposed_from() { copies_in_stream(hipMemcpyDeviceToHost, 2, long_step); }

// Kernels of collectives, behind those of the program or beside them.
static void collectives(Kernel kernel, bool beside, int steps) {
    hipStream_t own = make_stream(), other = beside ? make_stream() : own;
    for (int i = 0; i < rounds; i++) {
        for (int j = 0; j < steps; j++)
            launch(step, own);
        launch(kernel, other);
    }
    HIP(hipDeviceSynchronize());
}

static void comm_behind() { collectives(ncclDevKernel_AllReduce_Sum, false, 4); }
static void comm_behind_too() { collectives(rcclGenericKernel, false, 2); }
static void comm_beside() { collectives(ncclDevKernel_AllReduce_Sum, true, 6); }

// Each GPU has a thread; the first has `more` times the work of the others.
static void on_all_gpus(int more) {
    int gpus;
    HIP(hipGetDeviceCount(&gpus));
    std::vector<std::thread> threads;
    for (int gpu = 0; gpu < gpus; gpu++)
        threads.emplace_back([=] {
            HIP(hipSetDevice(gpu));
            int *memory = (int *)on_gpu(4096);
            hipStream_t stream = make_stream();
            int own = rounds * (gpu == 0 ? more : 1);
            for (int i = 0; i < own; i++)
                launch(long_step, stream, memory);
            HIP(hipStreamSynchronize(stream));
        });
    for (std::thread &thread : threads)
        thread.join();
}

static void balanced() { on_all_gpus(1); }
static void unbalanced() { on_all_gpus((int)size); }

// The second GPU goes on when the first has done its part, and the other way round.
static void in_turns(Kernel kernel) {
    int *memory[2];
    hipStream_t streams[2];
    hipEvent_t events[2];
    for (int gpu = 0; gpu < 2; gpu++) {
        HIP(hipSetDevice(gpu));
        memory[gpu] = (int *)on_gpu(4096);
        streams[gpu] = make_stream();
        HIP(hipEventCreateWithFlags(&events[gpu], hipEventDisableTiming));
    }
    for (int i = 0; i < rounds; i++)
        for (int gpu = 0; gpu < 2; gpu++) {
            HIP(hipSetDevice(gpu));
            if (i + gpu > 0)
                HIP(hipStreamWaitEvent(streams[gpu], events[1 - gpu], 0));
            for (long long j = 0; j < size; j++)
                launch(kernel, streams[gpu], memory[gpu]);
            HIP(hipEventRecord(events[gpu], streams[gpu]));
        }
    for (int gpu = 0; gpu < 2; gpu++)
        HIP(hipStreamSynchronize(streams[gpu]));
}

static void turns() { in_turns(step); }
static void long_turns() { in_turns(long_step); }

NOINLINE static void makes_streams() {
    for (long long i = 0; i < size; i++) {
        hipStream_t stream;
        HIP(hipStreamCreateWithFlags(&stream, hipStreamNonBlocking));
        HIP(hipStreamDestroy(stream));
    }
}

static void streams_each() {
    for (int i = 0; i < rounds; i++) {
        makes_streams();
        launch(step);
    }
}

NOINLINE static void registers_memory(std::vector<char> &memory) {
    HIP(hipHostRegister(memory.data(), memory.size(), 0));
    HIP(hipHostUnregister(memory.data()));
}

static void register_each() {
    std::vector<char> memory((size_t)size, 1);
    for (int i = 0; i < rounds; i++) {
        registers_memory(memory);
        launch(step);
    }
}

static void steady() {
    for (int i = 0; i < rounds; i++)
        launch(long_step);
}

static void late_by_code() {
    reads_settings();
    steady();
}

static void late_by_wait() {
    waits_for_licence();
    steady();
}

static void ends_in_code() {
    steady();
    HIP(hipDeviceSynchronize());
    writes_results();
}

static void ends_in_wait() {
    steady();
    HIP(hipDeviceSynchronize());
    waits_for_disk();
}

static void graph() {
    hipStream_t stream = make_stream();
    hipGraph_t graph;
    hipGraphExec_t replay;
    HIP(hipGraphCreate(&graph, 0));
    void *arguments[] = {&data};
    hipKernelNodeParams node = {};
    node.func = (void *)long_step;
    node.gridDim = dim3(1);
    node.blockDim = dim3(64);
    node.kernelParams = arguments;
    hipGraphNode_t last;
    for (int i = 0; i < 10; i++) {
        hipGraphNode_t next;
        HIP(hipGraphAddKernelNode(&next, graph, i ? &last : nullptr, i ? 1 : 0, &node));
        last = next;
    }
    HIP(hipGraphInstantiate(&replay, graph, nullptr, nullptr, 0));
    for (int i = 0; i < rounds; i++)
        HIP(hipGraphLaunch(replay, stream));
    HIP(hipStreamSynchronize(stream));
}

// Copies on a stream of their own, beside the kernels.
static void overlapped() {
    char *host = pinned(size), *gpu = on_gpu(size);
    hipStream_t kernels = make_stream(), copies = make_stream();
    for (int i = 0; i < rounds; i++) {
        HIP(hipMemcpyAsync(gpu, host, (size_t)size, hipMemcpyHostToDevice, copies));
        launch(long_step, kernels);
    }
    HIP(hipDeviceSynchronize());
}

// Two steps are always on their way: the host waits for the last but one.
static void ahead() {
    hipStream_t stream = make_stream();
    hipEvent_t done[2];
    for (hipEvent_t &event : done)
        HIP(hipEventCreateWithFlags(&event, hipEventDisableTiming));
    for (int i = 0; i < rounds; i++) {
        if (i >= 2)
            HIP(hipEventSynchronize(done[i % 2]));
        COMPUTE(size);
        for (int j = 0; j < 8; j++)
            launch(long_step, stream);
        HIP(hipEventRecord(done[i % 2], stream));
    }
    HIP(hipStreamSynchronize(stream));
}

static const std::map<std::string, std::function<void()>> habits = {
    {"code", code},
    {"code-inline", code_inline},
    {"code-of-several", code_of_several},
    {"nap", nap_between},
    {"wait-for-thread", wait_for_thread},
    {"input", input},
    {"sync-each", sync_each},
    {"sync-each-few", sync_each_few},
    {"tiny", tiny_kernels},
    {"tiny-in-turn", tiny_kernels_in_turn},
    {"allocate-each", allocate_each},
    {"allocate-several", allocate_several},
    {"fetch-each", fetch_each},
    {"send-each", send_each},
    {"pageable-to", pageable_to},
    {"pageable-from", pageable_from},
    {"exposed-to", exposed_to},
    {"exposed-from", exposed_from},
    {"small-to", [] { copies_in_stream(hipMemcpyHostToDevice, 30, step); }},
    {"small-from", [] { copies_in_stream(hipMemcpyDeviceToHost, 60, step); }},
    {"comm-behind", comm_behind},
    {"comm-behind-too", comm_behind_too},
    {"comm-beside", comm_beside},
    {"balanced", balanced},
    {"unbalanced", unbalanced},
    {"turns", turns},
    {"long-turns", long_turns},
    {"streams-each", streams_each},
    {"register-each", register_each},
    {"steady", steady},
    {"late-by-code", late_by_code},
    {"late-by-wait", late_by_wait},
    {"ends-in-code", ends_in_code},
    {"ends-in-wait", ends_in_wait},
    {"graph", graph},
    {"overlapped", overlapped},
    {"ahead", ahead},
};

int main(int argc, char **argv) {
    REQUIRE(argc == 4);
    auto habit = habits.find(argv[1]);
    REQUIRE(habit != habits.end());
    rounds = atoi(argv[2]);
    size = atoll(argv[3]);
    data = (int *)on_gpu(4096);
    // Loads the code, unless the start is the subject.
    if (!strstr(argv[1], "late")) {
        launch(tiny);
        HIP(hipDeviceSynchronize());
    }
    double begin = now_ns(CLOCK_BOOTTIME);
    habit->second();
    HIP(hipDeviceSynchronize());
    printf("habit_ns=%.0f\n", now_ns(CLOCK_BOOTTIME) - begin);
    return 0;
}
