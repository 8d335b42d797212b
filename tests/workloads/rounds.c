/* Rounds that each take exactly as much CPU time as asked for, a share of it in `first`, the rest in `second`:
 * rounds [--round-us N] [--first-us N] [--seconds S]. */
#include "work.h"

static uint64_t value = 88172645463325252ull;

/* Works until the thread has used `end` seconds of CPU time, and seldom looks at the clock: that is time in the kernel. */
#define WORK_UNTIL(end)               \
    do {                              \
        WORK(500, value);             \
    } while (thread_cpu() < (end))

static __attribute__((noinline)) void first(double end) { WORK_UNTIL(end); }

/* Not the same code, or the compiler makes one function of the two. */
static __attribute__((noinline)) void second(double end) {
    value += 2;
    WORK_UNTIL(end);
}

int main(int argc, char **argv) {
    double round = 1e-6 * option(argc, argv, "--round-us", 1000), share = 1e-6 * option(argc, argv, "--first-us", 500);
    double start = thread_cpu(), end = start + option(argc, argv, "--seconds", 1);
    for (; start < end; start += round) {
        first(start + share);
        second(start + round);
    }
    printf("value=%llu\n", (unsigned long long)value);
    return 0;
}
