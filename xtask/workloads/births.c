/* What a thread, a fork and a started program cost: births --threads N --forks N --spawns N.
 * Each figure is the wall time from the creation to the return of join or wait, in microseconds, over N in a row. */
#include "report.h"
#include <pthread.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void *nothing(void *unused) { return unused; }

static double threads_us(int count) {
    double start = seconds_of(CLOCK_MONOTONIC);
    for (int i = 0; i < count; i++) {
        pthread_t id;
        if (pthread_create(&id, NULL, nothing, NULL) != 0) exit(1);
        pthread_join(id, NULL);
    }
    return 1e6 * (seconds_of(CLOCK_MONOTONIC) - start) / count;
}

static double forks_us(int count) {
    double start = seconds_of(CLOCK_MONOTONIC);
    for (int i = 0; i < count; i++) {
        pid_t child = fork();
        if (child < 0) exit(1);
        if (child == 0) _exit(0);
        waitpid(child, NULL, 0);
    }
    return 1e6 * (seconds_of(CLOCK_MONOTONIC) - start) / count;
}

static double spawns_us(int count) {
    char *arguments[] = {"/bin/true", NULL};
    double start = seconds_of(CLOCK_MONOTONIC);
    for (int i = 0; i < count; i++) {
        pid_t child;
        if (posix_spawn(&child, arguments[0], NULL, NULL, arguments, environ) != 0) exit(1);
        waitpid(child, NULL, 0);
    }
    return 1e6 * (seconds_of(CLOCK_MONOTONIC) - start) / count;
}

int main(int argc, char **argv) {
    int threads = (int)option(argc, argv, "--threads", 1000);
    int forks = (int)option(argc, argv, "--forks", 200);
    int spawns = (int)option(argc, argv, "--spawns", 100);
    struct report begin = report_begin();
    char extra[200];
    snprintf(extra, sizeof extra, "thread_us=%.3f fork_us=%.3f spawn_us=%.3f", threads_us(threads), forks_us(forks),
             spawns_us(spawns));
    report_end(begin, extra);
    return 0;
}
