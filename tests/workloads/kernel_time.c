/* A third of the time in user code, a third in system calls, a third in page faults: kernel_time [--seconds S] [--no-perf 1].
 * Prints the shares as they were. `--no-perf` switches the perf events of the thread off. */
#include "work.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#define PAGES 100L

static uint64_t value = 88172645463325252ull;
static char bytes[65536];

static __attribute__((noinline)) void computes(long rounds) { WORK(rounds, value); }

static __attribute__((noinline)) void calls(int zero, long rounds) {
    for (long i = 0; i < rounds; i++) CHECK(read(zero, bytes, sizeof bytes) == sizeof bytes);
}

static __attribute__((noinline)) void touches(char *memory, long rounds) {
    for (long i = 0; i < rounds; i++) {
        CHECK(madvise(memory, PAGES * 4096, MADV_DONTNEED) == 0);
        for (long page = 0; page < PAGES; page++) ((volatile char *)memory)[page * 4096] = 1;
    }
}

/* How often to do something for `seconds`. */
static long rounds_for(double seconds, double per_round) {
    long rounds = (long)(seconds / per_round);
    return rounds > 0 ? rounds : 1;
}

int main(int argc, char **argv) {
    double seconds = option(argc, argv, "--seconds", 1), spent[3] = {0, 0, 0}, per_round[3] = {1, 1, 1};
    int zero = open("/dev/zero", O_RDONLY);
    char *memory = mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (option(argc, argv, "--no-perf", 0) > 0) CHECK(prctl(PR_TASK_PERF_EVENTS_DISABLE, 0, 0, 0, 0) == 0);
    CHECK(zero >= 0 && memory != MAP_FAILED && madvise(memory, PAGES * 4096, MADV_NOHUGEPAGE) == 0);
    for (double end = thread_cpu() + seconds, begin = thread_cpu(); begin < end;) {
        for (int i = 0; i < 3; i++) {
            /* Some 0.3 ms each, by what the last time took, and never twice as long: nothing is in step with the kernel's tick. */
            long rounds = rounds_for(1e-6 * (double)(150 + value % 300), per_round[i]);
            if (i == 0) computes(rounds);
            else if (i == 1) calls(zero, rounds);
            else touches(memory, rounds);
            double now = thread_cpu();
            spent[i] += now - begin;
            per_round[i] = (now - begin) / (double)rounds;
            begin = now;
        }
    }
    double all = spent[0] + spent[1] + spent[2];
    printf("computes=%.4f\ncalls=%.4f\ntouches=%.4f\n", spent[0] / all, spent[1] / all, spent[2] / all);
    return 0;
}
