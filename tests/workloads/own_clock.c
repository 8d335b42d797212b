/* Exports a `clock_gettime` of its own, as libfaketime does, that always says the same time; works; and prints how often it was called. */
#include "work.h"
#include <sys/syscall.h>

static volatile int calls;

int clock_gettime(clockid_t clock, struct timespec *time) {
    (void)clock;
    calls++;
    *time = (struct timespec){.tv_sec = 1};
    return 0;
}

static double cpu(void) {
    struct timespec now;
    syscall(SYS_clock_gettime, CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int main(void) {
    uint64_t value = 88172645463325252ull;
    while (cpu() < 0.5) WORK(1000, value);
    printf("calls=%d\n", calls);
    return value == 0;
}
