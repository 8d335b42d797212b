/* Time spent at the edges of code: in calls through the PLT, in the vDSO, in tiny library functions: stubs [--seconds S]. */
#include "work.h"
#include <math.h>

int main(int argc, char **argv) {
    double end = thread_cpu() + option(argc, argv, "--seconds", 0.5), sum = 0;
    static char from[4096], to[4096];
    char *(*volatile find)(const char *, int) = strchr;
    do {
        struct timespec now;
        for (int i = 0; i < 300; i++) {
            clock_gettime(CLOCK_MONOTONIC, &now);
            memcpy(to, from, (size_t)(16 + now.tv_nsec % 4000));
            sum += cos((double)now.tv_nsec) + (double)strlen(to) + (find(from, 'x') != NULL);
        }
    } while (thread_cpu() < end);
    printf("cpu=%.6f sum=%d\n", process_cpu(), sum != 0);
    return 0;
}
