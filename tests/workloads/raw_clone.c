/* Threads made by clone() itself, without the C library, one after the other: each shares the thread pointer of its maker. */
#include "work.h"
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <linux/futex.h>

#define STACK_BYTES (256 * 1024)

static volatile int running;
static double seconds;

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

static __attribute__((noinline)) uint64_t raw_work(uint64_t value) {
    double end = seconds;
    do {
        WORK(400, value);
    } while (raw_thread_cpu() < end);
    return value;
}

static int raw_thread(void *unused) {
    (void)unused;
    return raw_work(7) == 0;
}

int main(int argc, char **argv) {
    seconds = option(argc, argv, "--seconds", 0.5);
    char *stack = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(stack != MAP_FAILED);
    int threads = option(argc, argv, "--threads", 1);
    int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_CHILD_CLEARTID;
    int tid = 0;
    for (int thread = 0; thread < threads; thread++) {
        running = 1;
        tid = clone(raw_thread, stack + STACK_BYTES, flags, NULL, NULL, NULL, &running);
        CHECK(tid > 0);
        if (thread == 0) burn(seconds);
        while (running) syscall(SYS_futex, &running, FUTEX_WAIT, 1, NULL, NULL, 0);
    }
    /* The last one. */
    printf("tid=%d cpu=%.6f\n", tid, process_cpu());
    return 0;
}
