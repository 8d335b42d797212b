// What is counted of threads and processes, with the kernel's own accounts of it.
//
//   counted [--threads N] [--faults N] [--stay FILE] [--no-perf]
//
// Each thread touches N pages that were never touched, and works for a while. Prints of each what getrusage says of that:
// `thread=TID faults=N cpu_ns=N` (the latter as perf counts it, but with --no-perf), and of the process its threads, page faults, switches, CPU times, memory and bytes written. With
// --stay it then waits until the file is there.
#include "work.h"

#include <linux/perf_event.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long faults = 20000;
static int uses_perf = 1;
static pthread_barrier_t all_done, may_end;

static long thread_faults(void) {
    struct rusage usage;
    CHECK(getrusage(RUSAGE_THREAD, &usage) == 0);
    return usage.ru_minflt + usage.ru_majflt;
}

static long long cpu_ns(void) {
    struct timespec now;
    CHECK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) == 0);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* The kernel's own count of the thread's time, of which an account of CPU time leaves out what a hypervisor took from it. */
static int open_task_clock(void) {
    struct perf_event_attr attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.size = sizeof attributes;
    attributes.type = PERF_TYPE_SOFTWARE;
    attributes.config = PERF_COUNT_SW_TASK_CLOCK;
    attributes.exclude_kernel = attributes.exclude_hv = 1;
    return (int)syscall(SYS_perf_event_open, &attributes, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

/* 0 where there are no perf events. */
static long long task_clock(int fd) {
    long long value = 0;
    return read(fd, &value, sizeof value) == sizeof value ? value : 0;
}

__attribute__((noinline)) static void touch(void) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE), bytes = page * (size_t)faults;
    char *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    CHECK(madvise(memory, bytes, MADV_NOHUGEPAGE) == 0);
    for (size_t at = 0; at < bytes; at += page) memory[at] = 1;
    CHECK(munmap(memory, bytes) == 0);
}

__attribute__((noinline)) static void work(void) {
    volatile uint64_t sum = 0;
    for (long long begin = cpu_ns(); cpu_ns() - begin < 200000000LL;)
        for (int i = 0; i < 10000; i++) sum += i;
}

static void *thread(void *unused) {
    (void)unused;
    /* What it takes to begin a thread is not counted. */
    long faults_before = thread_faults();
    long long cpu_before = cpu_ns();
    int clock = uses_perf ? open_task_clock() : -1;
    touch();
    work();
    long long counted = task_clock(clock), cpu = cpu_ns() - cpu_before;
    printf("thread=%ld faults=%ld cpu_ns=%lld\n", syscall(SYS_gettid), thread_faults() - faults_before, counted ? counted : cpu);
    pthread_barrier_wait(&all_done);
    pthread_barrier_wait(&may_end);
    return NULL;
}

int main(int argc, char **argv) {
    int threads = 2;
    const char *stay = NULL;
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--threads") == 0) threads = atoi(argv[++i]);
        else if (strcmp(argv[i], "--faults") == 0) faults = atol(argv[++i]);
        else if (strcmp(argv[i], "--stay") == 0) stay = argv[++i];
        else if (strcmp(argv[i], "--no-perf") == 0) uses_perf = 0;
        else CHECK(!"known option");
    }
    size_t kept_bytes = 64 << 20;
    char *kept = malloc(kept_bytes);
    CHECK(kept);
    memset(kept, 1, kept_bytes);
    static char block[1 << 16];
    FILE *sink = fopen("/dev/null", "w");
    CHECK(sink && setvbuf(sink, NULL, _IONBF, 0) == 0);
    for (int i = 0; i < 100; i++) CHECK(fwrite(block, sizeof block, 1, sink) == 1);
    pthread_t ids[64];
    CHECK(threads <= 64);
    CHECK(pthread_barrier_init(&all_done, NULL, threads + 1) == 0);
    CHECK(pthread_barrier_init(&may_end, NULL, threads + 1) == 0);
    for (int i = 0; i < threads; i++) CHECK(pthread_create(&ids[i], NULL, thread, NULL) == 0);
    pthread_barrier_wait(&all_done);
    struct rusage usage;
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
    printf("threads=%d\nall_faults=%ld\nwritten=%ld\n", threads + 1, usage.ru_minflt + usage.ru_majflt, 100L * (long)sizeof block);
    printf("switches=%ld\n", usage.ru_nvcsw + usage.ru_nivcsw);
    printf("user_ns=%lld\nsystem_ns=%lld\n", usage.ru_utime.tv_sec * 1000000000LL + usage.ru_utime.tv_usec * 1000LL,
           usage.ru_stime.tv_sec * 1000000000LL + usage.ru_stime.tv_usec * 1000LL);
    long virtual_pages, resident_pages;
    FILE *statm = fopen("/proc/self/statm", "r");
    CHECK(statm && fscanf(statm, "%ld %ld", &virtual_pages, &resident_pages) == 2);
    long page = sysconf(_SC_PAGESIZE);
    printf("virtual=%ld\nresident=%ld\npeak=%ld\nready=1\n", virtual_pages * page, resident_pages * page, usage.ru_maxrss * 1024L);
    CHECK(fflush(stdout) == 0);
    while (stay && access(stay, F_OK) != 0) usleep(20000);
    pthread_barrier_wait(&may_end);
    for (int i = 0; i < threads; i++) CHECK(pthread_join(ids[i], NULL) == 0);
    CHECK(kept[kept_bytes - 1] == 1);
    return 0;
}
