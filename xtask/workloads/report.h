/* What the programs of the benchmark tell it: one line of `key=value` on stdout, at their very end. */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static inline double seconds_of(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* CPU time and time of day where the work begins: what came before is start-up, which is measured on its own. */
struct report {
    double cpu, wall;
};

static inline struct report report_begin(void) {
    struct report begin = {seconds_of(CLOCK_PROCESS_CPUTIME_ID), seconds_of(CLOCK_REALTIME)};
    return begin;
}

/* The most memory this program had. Not ru_maxrss: that begins with the memory of the process that executed the program. */
static inline long peak_rss_kb(void) {
    char line[200];
    long kb = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status))
        if (sscanf(line, "VmHWM: %ld", &kb) == 1) break;
    if (status) fclose(status);
    return kb;
}

/* `extra` is more `key=value`, or "". */
static inline void report_end(struct report begin, const char *extra) {
    double cpu = seconds_of(CLOCK_PROCESS_CPUTIME_ID), wall = seconds_of(CLOCK_REALTIME) - begin.wall;
    long rss_kb = peak_rss_kb();
    printf("cpu=%.9f cpu_total=%.9f rss_kb=%ld wall=%.9f ended=%.9f %s\n", cpu - begin.cpu, cpu, rss_kb, wall,
           seconds_of(CLOCK_REALTIME), extra);
    fflush(stdout);
}

/* The number after `--name`, or another one when it is not there. */
static inline double option(int argc, char **argv, const char *name, double otherwise) {
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], name) == 0) return atof(argv[i + 1]);
    return otherwise;
}

#endif
