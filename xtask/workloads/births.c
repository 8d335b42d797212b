/* What a thread, a fork and a started program cost: births --threads N --forks N --spawns N.
 * Each from the creation to the return of join or wait, in microseconds, the mean over N in a row: wall time, which on a busy
 * machine is mostly waiting for a processor, and CPU time of this process and its children. */
#include "report.h"
#include <pthread.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void *nothing(void *unused) { return unused; }

static void thread(void) {
    pthread_t id;
    if (pthread_create(&id, NULL, nothing, NULL) != 0) exit(1);
    pthread_join(id, NULL);
}

static void forked(void) {
    pid_t child = fork();
    if (child < 0) exit(1);
    if (child == 0) _exit(0);
    waitpid(child, NULL, 0);
}

static void spawned(void) {
    char *arguments[] = {"/bin/true", NULL};
    pid_t child;
    if (posix_spawn(&child, arguments[0], NULL, NULL, arguments, environ) != 0) exit(1);
    waitpid(child, NULL, 0);
}

static double tree_cpu(void) {
    struct rusage children;
    getrusage(RUSAGE_CHILDREN, &children);
    return seconds_of(CLOCK_PROCESS_CPUTIME_ID) + (double)(children.ru_utime.tv_sec + children.ru_stime.tv_sec) +
           1e-6 * (double)(children.ru_utime.tv_usec + children.ru_stime.tv_usec);
}

/* Appends `NAME_us=… NAME_cpu_us=…`. */
static void repeat(const char *name, void (*birth)(void), int count, char *report) {
    double wall = seconds_of(CLOCK_MONOTONIC), cpu = tree_cpu();
    for (int i = 0; i < count; i++) birth();
    wall = seconds_of(CLOCK_MONOTONIC) - wall;
    cpu = tree_cpu() - cpu;
    sprintf(report + strlen(report), "%s_us=%.3f %s_cpu_us=%.3f ", name, 1e6 * wall / count, name, 1e6 * cpu / count);
}

int main(int argc, char **argv) {
    int threads = (int)option(argc, argv, "--threads", 1000);
    int forks = (int)option(argc, argv, "--forks", 200);
    int spawns = (int)option(argc, argv, "--spawns", 100);
    struct report begin = report_begin();
    char report[400] = "";
    repeat("thread", thread, threads, report);
    repeat("fork", forked, forks, report);
    repeat("spawn", spawned, spawns, report);
    report_end(begin, report);
    return 0;
}
