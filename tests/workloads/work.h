/* What all workloads share: burning CPU time, reading CPU clocks, reading options. */
#ifndef RSYS_WORK_H
#define RSYS_WORK_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A chain of dependent steps: it takes equally long wherever it stands, and no compiler shortens it. */
#define WORK(units, value)                                   \
    do {                                                     \
        for (long work_i = 0; work_i < (units) * 64L; work_i++) { \
            (value) ^= (value) << 13;                        \
            (value) ^= (value) >> 7;                         \
            (value) ^= (value) << 17;                        \
            __asm__ volatile("" : "+r"(value));              \
        }                                                    \
    } while (0)

static inline double clock_seconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static inline double thread_cpu(void) { return clock_seconds(CLOCK_THREAD_CPUTIME_ID); }
static inline double process_cpu(void) { return clock_seconds(CLOCK_PROCESS_CPUTIME_ID); }

/* Burns CPU time of the calling thread. */
static __attribute__((noinline, unused)) uint64_t burn(double seconds) {
    uint64_t value = 88172645463325252ull;
    double end = thread_cpu() + seconds;
    do {
        WORK(400, value);
    } while (thread_cpu() < end);
    return value;
}

/* The number after `--name`, or another one when it is not there. */
static inline double option(int argc, char **argv, const char *name, double otherwise) {
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], name) == 0) return atof(argv[i + 1]);
    return otherwise;
}

/* The word after `--name`, or another one when it is not there. */
static inline const char *word_option(int argc, char **argv, const char *name, const char *otherwise) {
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], name) == 0) return argv[i + 1];
    return otherwise;
}

#define CHECK(condition)                                                           \
    do {                                                                           \
        if (!(condition)) {                                                        \
            fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition); \
            _exit(99);                                                             \
        }                                                                          \
    } while (0)

#endif
