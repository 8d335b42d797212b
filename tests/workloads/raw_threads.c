/* Threads made by clone() itself that come and go, each asked to sample itself as the profiler asks those that it finds:
 * raw_threads [--count N] [--at-once N]. Prints how much memory and how many timers the process has won by it. */
#include "work.h"
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <linux/futex.h>

#define STACK_BYTES (128 * 1024)
#define MOST 64
/* "rsys": what tells the request from other signals. */
#define COOKIE 0x72737973
#define SECONDS 0.0015

static volatile int running[MOST], asked[MOST];

/* No errno, no C library: only computation and bare system calls. */
static __attribute__((noinline)) double raw_thread_cpu(void) {
    struct timespec now;
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"((long)SYS_clock_gettime), "D"((long)CLOCK_THREAD_CPUTIME_ID), "S"(&now)
                     : "rcx", "r11", "memory");
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* However late it runs, it is not over before it was asked. */
static __attribute__((noinline)) void raw_wait_until_asked(volatile int *asked) {
    while (!__atomic_load_n(asked, __ATOMIC_ACQUIRE)) {
        register void *timeout __asm__("r10") = NULL;
        long result;
        __asm__ volatile("syscall"
                         : "=a"(result)
                         : "a"((long)SYS_futex), "D"(asked), "S"((long)FUTEX_WAIT), "d"(0L), "r"(timeout)
                         : "rcx", "r11", "memory");
    }
}

static int raw_thread(void *asked) {
    raw_wait_until_asked(asked);
    uint64_t value = 7;
    do {
        WORK(50, value);
    } while (raw_thread_cpu() < SECONDS);
    return value == 0;
}

static void ask(int tid) {
    siginfo_t info;
    memset(&info, 0, sizeof info);
    info.si_signo = SIGSTKFLT;
    info.si_code = SI_QUEUE;
    info.si_pid = getpid();
    info.si_value.sival_int = COOKIE;
    CHECK(syscall(SYS_rt_tgsigqueueinfo, getpid(), tid, SIGSTKFLT, &info) == 0);
}

static long lines_in(const char *path, const char *start, long *value) {
    char line[256];
    long count = 0;
    FILE *file = fopen(path, "r");
    CHECK(file != NULL);
    while (fgets(line, sizeof line, file))
        if (strncmp(line, start, strlen(start)) == 0) {
            count++;
            if (value) *value = atol(line + strlen(start));
        }
    fclose(file);
    return count;
}

int main(int argc, char **argv) {
    long count = (long)option(argc, argv, "--count", 2000), at_once = (long)option(argc, argv, "--at-once", 4);
    long before_kb = 0, after_kb = 0;
    CHECK(at_once <= MOST);
    char *stacks = mmap(NULL, STACK_BYTES * MOST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    CHECK(stacks != MAP_FAILED);
    for (long i = 0; i < count; i += at_once) {
        /* The first tenth brings in what is there for good. */
        if (i * 10 >= count && before_kb == 0) lines_in("/proc/self/status", "VmRSS:", &before_kb);
        int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_CHILD_CLEARTID;
        for (long n = 0; n < at_once; n++) {
            running[n] = 1;
            asked[n] = 0;
            int tid = clone(raw_thread, stacks + STACK_BYTES * (n + 1), flags, (void *)&asked[n], NULL, NULL, &running[n]);
            CHECK(tid > 0);
            ask(tid);
            __atomic_store_n(&asked[n], 1, __ATOMIC_RELEASE);
            syscall(SYS_futex, &asked[n], FUTEX_WAKE, 1, NULL, NULL, 0);
        }
        for (long n = 0; n < at_once; n++)
            while (running[n]) syscall(SYS_futex, &running[n], FUTEX_WAIT, 1, NULL, NULL, 0);
    }
    lines_in("/proc/self/status", "VmRSS:", &after_kb);
    printf("growth_kb=%ld timers=%ld cpu=%.6f\n", after_kb - before_kb, lines_in("/proc/self/timers", "ID:", NULL), process_cpu());
    return 0;
}
