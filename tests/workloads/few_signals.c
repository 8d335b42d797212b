/* Lowers the limit on signals that may be pending, becomes itself, and makes threads and then as many timers as the limit has room for:
 * few_signals THREADS TIMERS [0 when it has become itself]. Prints `timers=`. */
#include "work.h"
#include <errno.h>
#include <signal.h>
#include <sys/resource.h>

static pthread_barrier_t ready, done;

static void *worker(void *unused) {
    burn(0.1);
    pthread_barrier_wait(&ready);
    pthread_barrier_wait(&done);
    return unused;
}

int main(int argc, char **argv) {
    CHECK(argc >= 3);
    int threads = atoi(argv[1]), wanted = atoi(argv[2]), made = 0;
    if (argc == 3) {
        struct rlimit limit = {wanted, wanted};
        CHECK(setrlimit(RLIMIT_SIGPENDING, &limit) == 0);
        execl(argv[0], argv[0], argv[1], argv[2], "0", (char *)NULL);
        return 98;
    }
    pthread_barrier_init(&ready, NULL, threads + 1);
    pthread_barrier_init(&done, NULL, threads + 1);
    for (int i = 0; i < threads; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, worker, NULL) == 0);
    }
    burn(0.1);
    pthread_barrier_wait(&ready);
    for (int i = 0; i < wanted; i++) {
        timer_t timer;
        struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1};
        made += timer_create(CLOCK_MONOTONIC, &event, &timer) == 0;
    }
    pthread_barrier_wait(&done);
    printf("timers=%d\n", made);
    return 0;
}
