// A GPU that waits for known reasons, a few times each: the host computes, the host sleeps.
//
// hip_idle ROUNDS MILLISECONDS
//
// Prints, in nanoseconds of CLOCK_BOOTTIME, how long each reason held: from the return of the call before to the call that launches.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>

static long long now_ns(clockid_t clock)
{
    timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

__global__ void spin(int *data) { data[threadIdx.x] += 1; }

static void work(int *data)
{
    hipLaunchKernelGGL(spin, dim3(1), dim3(64), 0, nullptr, data);
    if (hipDeviceSynchronize() != hipSuccess)
        exit(1);
}

static volatile unsigned long long sink;

__attribute__((noinline)) static void computes(long long duration_ns)
{
    long long end = now_ns(CLOCK_THREAD_CPUTIME_ID) + duration_ns;
    while (now_ns(CLOCK_THREAD_CPUTIME_ID) < end)
        for (int i = 0; i < 200000; i++)
            sink = sink * 31 + 7;
}

__attribute__((noinline)) static void sleeps(long long duration_ns)
{
    timespec time = {duration_ns / 1000000000, duration_ns % 1000000000};
    nanosleep(&time, nullptr);
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 10;
    long long duration_ns = (argc > 2 ? atoll(argv[2]) : 30) * 1000000;
    long long computed_ns = 0, slept_ns = 0;
    int *data = nullptr;
    if (hipMalloc(&data, 4096) != hipSuccess)
        return 1;
    work(data);
    for (int round = 0; round < rounds; round++) {
        long long begin = now_ns(CLOCK_BOOTTIME);
        computes(duration_ns);
        computed_ns += now_ns(CLOCK_BOOTTIME) - begin;
        work(data);
        begin = now_ns(CLOCK_BOOTTIME);
        sleeps(duration_ns);
        slept_ns += now_ns(CLOCK_BOOTTIME) - begin;
        work(data);
    }
    printf("computed_ns=%lld\nslept_ns=%lld\n", computed_ns, slept_ns);
    return 0;
}
