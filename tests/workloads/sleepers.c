/* Threads that sleep: sleepers --threads N --seconds S [--nap-ms M]. Each sleeps once for S seconds, or, with --nap-ms, again and again
 * for M milliseconds until that time is over. Prints `ready` when all threads run, `early=` sleeps that were too short. */
#include "work.h"
#include <errno.h>

static double seconds, nap;
static int early;
static pthread_barrier_t all_run;

static __attribute__((noinline)) void doze(double length) {
    struct timespec t = {(time_t)length, (long)(1e9 * (length - (double)(time_t)length))};
    double start = clock_seconds(CLOCK_MONOTONIC);
    int result = nanosleep(&t, NULL);
    if (result != 0 || clock_seconds(CLOCK_MONOTONIC) - start < length) __atomic_add_fetch(&early, 1, __ATOMIC_SEQ_CST);
}

static void *sleeper(void *unused) {
    pthread_barrier_wait(&all_run);
    double end = clock_seconds(CLOCK_MONOTONIC) + seconds;
    do doze(nap > 0 ? nap : seconds);
    while (nap > 0 && clock_seconds(CLOCK_MONOTONIC) < end);
    return unused;
}

int main(int argc, char **argv) {
    int threads = (int)option(argc, argv, "--threads", 10);
    seconds = option(argc, argv, "--seconds", 2);
    nap = option(argc, argv, "--nap-ms", 0) / 1e3;
    CHECK(pthread_barrier_init(&all_run, NULL, (unsigned)threads + 1) == 0);
    pthread_t *ids = calloc((size_t)threads, sizeof *ids);
    CHECK(ids != NULL);
    for (int i = 0; i < threads; i++) CHECK(pthread_create(&ids[i], NULL, sleeper, NULL) == 0);
    pthread_barrier_wait(&all_run);
    puts("ready");
    fflush(stdout);
    for (int i = 0; i < threads; i++) pthread_join(ids[i], NULL);
    printf("early=%d\n", early);
    return 0;
}
