// GPUs that are idle for known reasons, a few times each. GPU 0 is synchronised behind each of them.
//
// hip_causes ROUNDS MILLISECONDS [LIBRARY]
//
// The library is parallel_work.c: then there are times within OpenMP, Kokkos and a call of MPI, too. With a file in HIP_CAUSES_UNTIL there are more
// rounds, until that is there.
//
// Prints times of CLOCK_BOOTTIME in nanoseconds: `span REASON BEGIN END` around each reason that the host has, `launched KERNEL TIME` before each
// launch on GPU 0, and `waited BEGIN END` around each synchronisation with it. What the GPUs did is in the ground truth. `delayed NAME NANOSECONDS` says for
// how long of that its thread has waited for a processor (/proc/thread-self/schedstat).
#include <hip/hip_runtime.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <unistd.h>

#include <cstring>

#include "check.h"

static long long boot_ns() { return (long long)now_ns(CLOCK_BOOTTIME); }

static int counters = -1;

static long long delay_ns()
{
    char line[128] = "";
    if (counters < 0)
        counters = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    if (counters < 0 || pread(counters, line, sizeof line - 1, 0) <= 0)
        return 0;
    const char *second = strchr(line, ' ');
    return second ? atoll(second) : 0;
}

// Reads it before and behind everything else, so that what is measured is all in between.
#define DELAYED(name, ...)                                               \
    do {                                                                 \
        long long delay = delay_ns();                                    \
        __VA_ARGS__                                                      \
        printf("delayed " name " %lld\n", delay_ns() - delay);           \
    } while (0)

__global__ void spin(int *data) { data[threadIdx.x] += 1; }
__global__ void slow(int *data) { data[threadIdx.x] += 1; }
__global__ void awaits(int *data) { data[threadIdx.x] += 1; }
__global__ void follows(int *data) { data[threadIdx.x] += 1; }

static const size_t LARGE = (size_t)32 << 20;
static int *data[2];
static hipStream_t streams[2];
static volatile unsigned long long sink;

#define LAUNCH(gpu, kernel) hipLaunchKernelGGL(kernel, dim3(1), dim3(64), 0, streams[gpu], data[gpu])
#define LAUNCH_FIRST(kernel)                                   \
    DELAYED(#kernel, {                                         \
        long long begin = boot_ns();                           \
        LAUNCH(0, kernel);                                     \
        printf("launched " #kernel " %lld\n", begin);          \
    })

static void wait_for_gpu()
{
    DELAYED("waited", {
        long long begin = boot_ns();
        HIP(hipStreamSynchronize(streams[0]));
        printf("waited %lld %lld\n", begin, boot_ns());
    });
}

__attribute__((noinline)) static void work()
{
    LAUNCH_FIRST(spin);
    wait_for_gpu();
}

__attribute__((noinline)) static void computes(long long duration_ns)
{
    double end = now_ns(CLOCK_THREAD_CPUTIME_ID) + duration_ns;
    while (now_ns(CLOCK_THREAD_CPUTIME_ID) < end)
        for (int i = 0; i < 200000; i++)
            sink = sink * 31 + 7;
}

__attribute__((noinline)) static void sleeps(long long duration_ns)
{
    timespec time = {duration_ns / 1000000000, duration_ns % 1000000000};
    nanosleep(&time, nullptr);
}

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static sem_t wanted, taken;

// Has the mutex for so long whenever that is wanted.
static void *keeps(void *duration_ns)
{
    for (;;) {
        while (sem_wait(&wanted))
            ;
        pthread_mutex_lock(&mutex);
        sem_post(&taken);
        sleeps(*(long long *)duration_ns);
        pthread_mutex_unlock(&mutex);
    }
    return nullptr;
}

__attribute__((noinline)) static void locks()
{
    pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
}

// Pageable memory: the runtime moves it in parts through memory of its own.
__attribute__((noinline)) static void copies(void *device, char *host)
{
    HIP(hipMemcpy(host, device, LARGE, hipMemcpyDeviceToHost));
}

// GPU 0 waits for what GPU 1 does.
__attribute__((noinline)) static void waits_for_event(hipEvent_t event)
{
    HIP(hipSetDevice(1));
    LAUNCH(1, slow);
    HIP(hipEventRecord(event, streams[1]));
    HIP(hipSetDevice(0));
    HIP(hipStreamWaitEvent(streams[0], event, 0));
    LAUNCH_FIRST(awaits);
}

static void host_function(hipStream_t, hipError_t, void *duration_ns) { sleeps(*(long long *)duration_ns); }

// GPU 0 waits for a function of the host.
__attribute__((noinline)) static void waits_for_host(long long *duration_ns)
{
    HIP(hipStreamAddCallback(streams[0], host_function, duration_ns, 0));
    LAUNCH_FIRST(follows);
}

#define SPAN(reason, ...)                                                \
    do {                                                                 \
        DELAYED(reason, {                                                \
            long long begin = boot_ns();                                 \
            __VA_ARGS__;                                                 \
            printf("span " reason " %lld %lld\n", begin, boot_ns());     \
        });                                                              \
        work();                                                          \
    } while (0)

// A function of the library.
template <typename Function> static Function *of(void *library, const char *name)
{
    void *found = dlsym(library, name);
    if (!found) {
        printf("%s\n", dlerror());
        exit(1);
    }
    return (Function *)found;
}

static void within_runtimes(void *library, int rounds, long long duration_ns)
{
    auto openmp = of<void(long long)>(library, "within_openmp");
    auto kokkos = of<void(long long)>(library, "within_kokkos");
    of<void()>(library, "before_mpi")();
    work();
    auto mpi = of<void()>(library, "within_mpi");
    SPAN("mpi", mpi());
    for (int round = 0; round < rounds; round++) {
        SPAN("openmp", openmp(duration_ns));
        SPAN("kokkos", kokkos(duration_ns));
    }
    of<void()>(library, "after_mpi")();
}

// Nobody waits for the file for ever.
static bool wants_more()
{
    const char *file = getenv("HIP_CAUSES_UNTIL");
    return file && access(file, F_OK) != 0 && now_ns(CLOCK_PROCESS_CPUTIME_ID) < 60e9;
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 10;
    long long duration_ns = (long long)((argc > 2 ? atof(argv[2]) : 30) * 1e6);
    hipEvent_t event;
    void *large;
    char *host = (char *)memset(malloc(LARGE), 1, LARGE);
    for (int gpu = 1; gpu >= 0; gpu--) {
        HIP(hipSetDevice(gpu));
        HIP(hipStreamCreate(&streams[gpu]));
        HIP(hipMalloc((void **)&data[gpu], 4096));
    }
    HIP(hipMalloc(&large, LARGE));
    HIP(hipSetDevice(1));
    HIP(hipEventCreateWithFlags(&event, hipEventDisableTiming));
    LAUNCH(1, spin);
    HIP(hipStreamSynchronize(streams[1]));
    HIP(hipSetDevice(0));
    pthread_t keeper;
    sem_init(&wanted, 0, 0);
    sem_init(&taken, 0, 0);
    if (pthread_create(&keeper, nullptr, keeps, &duration_ns))
        return 1;
    SPAN("copies", copies(large, host));
    if (argc > 3) {
        void *library = dlopen(argv[3], RTLD_NOW | RTLD_LOCAL);
        if (!library) {
            printf("%s\n", dlerror());
            return 1;
        }
        within_runtimes(library, rounds, duration_ns);
        return 0;
    }
    for (int round = 0; round < rounds || wants_more(); round++) {
        SPAN("computes", computes(duration_ns));
        SPAN("sleeps", sleeps(duration_ns));
        sem_post(&wanted);
        sem_wait(&taken);
        SPAN("locks", locks());
        SPAN("copies", copies(large, host));
        waits_for_event(event);
        wait_for_gpu();
        waits_for_host(&duration_ns);
        wait_for_gpu();
        for (int launch = 0; launch < 20; launch++)
            work();
    }
    return 0;
}
