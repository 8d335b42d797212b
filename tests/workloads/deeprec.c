/* Deep recursion: deeprec --depth D --seconds S. Goes D frames down, burns there, comes back, again and again. */
#include "work.h"

static __attribute__((noinline)) uint64_t descend(long depth, uint64_t value) {
    if (depth == 0) {
        WORK(2000, value);
        return value;
    }
    return descend(depth - 1, value + 1) ^ (uint64_t)depth;
}

int main(int argc, char **argv) {
    long depth = (long)option(argc, argv, "--depth", 10000);
    double end = thread_cpu() + option(argc, argv, "--seconds", 0.5);
    uint64_t value = 1;
    do {
        value = descend(depth, value | 1);
    } while (thread_cpu() < end);
    printf("cpu=%.6f\n", process_cpu());
    return 0;
}
