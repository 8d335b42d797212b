/* A thread that sleeps in `slow` and computes in `crunch`, again and again, by its own clocks.
 *
 *     paced_waits ROUNDS SLEEP_US CPU_US
 *
 * Prints how long it was blocked in `slow`, in seconds: at least `blocked`, which is its time there less the CPU time and the time that it
 * waited for a processor (/proc/thread-self/schedstat), at most `away`, which holds the latter. Before and behind it sleeps in `settle`, so that
 * whoever looks at it has begun to. */
#include "work.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int counters;

static double seconds(clockid_t clock) {
    struct timespec time;
    clock_gettime(clock, &time);
    return time.tv_sec + time.tv_nsec * 1e-9;
}

static double delay(void) {
    char line[128] = "";
    CHECK(pread(counters, line, sizeof line - 1, 0) > 0);
    char *second = strchr(line, ' ');
    CHECK(second != NULL);
    return strtod(second, NULL) * 1e-9;
}

__attribute__((noinline)) static void slow(long us) {
    struct timespec time = {us / 1000000, us % 1000000 * 1000};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
    __asm__ volatile("");
}

__attribute__((noinline)) static void settle(void) {
    struct timespec time = {0, 100000000};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &time, NULL);
    __asm__ volatile("" ::: "memory");
}

__attribute__((noinline)) static void crunch(double until) {
    while (seconds(CLOCK_THREAD_CPUTIME_ID) < until) {
    }
}

int main(int count, char **arguments) {
    CHECK(count == 4);
    long rounds = atol(arguments[1]), sleep_us = atol(arguments[2]);
    double cpu = atof(arguments[3]) * 1e-6, away = 0, delayed = 0;
    counters = open("/proc/thread-self/schedstat", O_RDONLY);
    CHECK(counters >= 0);
    settle();
    for (long round = 0; round < rounds; round++) {
        double delays = delay(), wall = seconds(CLOCK_MONOTONIC), used = seconds(CLOCK_THREAD_CPUTIME_ID);
        slow(sleep_us);
        double used_by_now = seconds(CLOCK_THREAD_CPUTIME_ID);
        away += seconds(CLOCK_MONOTONIC) - wall - (used_by_now - used);
        delayed += delay() - delays;
        crunch(used_by_now + cpu);
    }
    settle();
    printf("blocked=%f\naway=%f\n", away - delayed, away);
    return 0;
}
