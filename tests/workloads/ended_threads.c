/* Threads that record and are ended by a handler that calls pthread_exit, or are cancelled at once: ended_threads exit|cancel TIMES
 *
 * Each thread records ranges until then, and one more in a cleanup handler. */
#include "work.h"
#include "rsys.h"
#include <signal.h>

static volatile int recorded, cleaned;

static void on_end(int number) {
    (void)number;
    pthread_exit(NULL);
}

static void cleanup(void *unused) {
    (void)unused;
    rsys_range_push("cleanup");
    rsys_range_pop();
    cleaned++;
}

static void *record(void *unused) {
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    pthread_cleanup_push(cleanup, NULL);
    for (;;) {
        rsys_range_push("work");
        rsys_range_pop();
        recorded = 1;
    }
    pthread_cleanup_pop(0);
    return unused;
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    int times = atoi(argv[2]), cancels = argv[1][0] == 'c';
    struct sigaction action = {.sa_handler = on_end};
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    for (int i = 0; i < times; i++) {
        pthread_t thread;
        recorded = 0;
        CHECK(pthread_create(&thread, NULL, record, NULL) == 0);
        while (!recorded) sched_yield();
        usleep(i * 37 % 1000);
        CHECK((cancels ? pthread_cancel(thread) : pthread_kill(thread, SIGUSR1)) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
    }
    printf("cleaned=%d\n", cleaned);
    return 0;
}
