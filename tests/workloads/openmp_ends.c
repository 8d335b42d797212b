/* How an OpenMP program may end, or go on: `openmp_ends HOW [COUNT]`. Each region has two threads.
 *   storm COUNT   COUNT short regions, one after the other
 *   tasks COUNT   COUNT tasks of one thread, run by two
 *   locks COUNT   COUNT times a lock and a trial of a lock that is held
 *   critical COUNT   COUNT times a critical section of a single thread: prints ns of the best of 20 turns
 *   open          _exit in the midst of a region
 *   killed        SIGKILL in the midst of a region
 *   fork          a child by fork, between two regions, that has regions of its own
 *   inside        a child by fork from within a region, that executes this program with `storm 3`
 *   exec          one region, then this program is executed again with `storm 3`
 *   idle          a region, and then 200 ms of a single thread
 * Compile with -fopenmp. */
#define _GNU_SOURCE
#include <omp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CHECK(what) do { if (!(what)) { printf("failed: %s\n", #what); exit(1); } } while (0)

static long counted;
static char *self;

static void region(void) {
#pragma omp parallel num_threads(2) /* line: region */
    {
#pragma omp atomic
        counted++;
    }
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}

static void storm(long count) {
    double start = seconds();
    for (long i = 0; i < count; i++) {
        region();
    }
    CHECK(counted >= 2 * count);
    printf("ns=%.1f\n", (seconds() - start) / count * 1e9);
}

static void critical(long count) {
    double best = 1e9;
    for (int turn = 0; turn < 20; turn++) {
        double start = seconds();
        for (long i = 0; i < count; i++) {
#pragma omp critical
            counted++;
        }
        double ns = (seconds() - start) / count * 1e9;
        best = ns < best ? ns : best;
        struct timespec nap = {0, 20000000};
        nanosleep(&nap, NULL);
    }
    printf("ns=%.1f\n", best);
}

static void tasks(long count) {
    long done = 0;
#pragma omp parallel num_threads(2)
#pragma omp single
    for (long i = 0; i < count; i++) {
#pragma omp task shared(done)
        {
#pragma omp atomic
            done++;
        }
    }
    CHECK(done == count);
    printf("done=%ld\n", done);
}

static void locks(long count) {
    omp_lock_t free_lock, held;
    omp_init_lock(&free_lock);
    omp_init_lock(&held);
    omp_set_lock(&held);
    long in_vain = 0;
#pragma omp parallel num_threads(2) reduction(+ : in_vain)
    {
        for (long i = 0; i < count; i++) {
            omp_set_lock(&free_lock);
            in_vain += !omp_test_lock(&held);
            omp_unset_lock(&free_lock);
        }
    }
    omp_unset_lock(&held);
    CHECK(in_vain == 2 * count);
    printf("in_vain=%ld\n", in_vain);
}

static void wait_for(pid_t child) {
    int status = 0;
    CHECK(child > 0 && waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static void again(void) {
    execl(self, self, "storm", "3", (char *)NULL);
    _exit(9);
}

int main(int argc, char **argv) {
    CHECK(argc > 1);
    self = argv[0];
    const char *how = argv[1];
    long count = argc > 2 ? atol(argv[2]) : 1;
    if (!strcmp(how, "storm")) {
        storm(count);
    } else if (!strcmp(how, "critical")) {
        critical(count);
    } else if (!strcmp(how, "tasks")) {
        tasks(count);
    } else if (!strcmp(how, "locks")) {
        locks(count);
    } else if (!strcmp(how, "open") || !strcmp(how, "killed")) {
        region();
#pragma omp parallel num_threads(2) /* line: open */
        {
#pragma omp barrier
#pragma omp master
            {
                if (how[0] == 'k') raise(SIGKILL);
                _exit(3);
            }
#pragma omp barrier
        }
    } else if (!strcmp(how, "fork")) {
        region();
        pid_t child = fork();
        if (child == 0) {
            region();
            region();
            exit(0);
        }
        wait_for(child);
        region();
    } else if (!strcmp(how, "inside")) {
#pragma omp parallel num_threads(2)
        {
#pragma omp single
            {
                pid_t child = fork();
                if (child == 0) again();
                wait_for(child);
            }
        }
        region();
    } else if (!strcmp(how, "exec")) {
        region();
        again();
    } else if (!strcmp(how, "idle")) {
        region();
        double until = seconds() + 0.2;
        while (seconds() < until) {
        }
        region();
    } else {
        CHECK(!"a known way");
    }
    return 0;
}
