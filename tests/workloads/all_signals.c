/* Handles every signal, as the runtime of Go does, and takes one that it did not send for an error. Several threads burn
 * CPU time.
 *
 * all_signals [--seconds S] [--threads N]; prints strange=NUMBER, the last signal or 0. */
#include "work.h"
#include <pthread.h>
#include <signal.h>
#include <string.h>

static volatile sig_atomic_t strange;
static double seconds;

static void on_signal(int number) { strange = number; }

static void *burn_long(void *argument) {
    (void)argument;
    burn(seconds);
    return NULL;
}

int main(int argc, char **argv) {
    int count = (int)option(argc, argv, "--threads", 3);
    seconds = option(argc, argv, "--seconds", 0.5);
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    for (int number = 1; number < NSIG; number++)
        sigaction(number, &action, NULL);
    pthread_t threads[64];
    CHECK(count <= 64);
    for (int index = 0; index < count; index++)
        CHECK(pthread_create(&threads[index], NULL, burn_long, NULL) == 0);
    burn(seconds);
    for (int index = 0; index < count; index++)
        CHECK(pthread_join(threads[index], NULL) == 0);
    printf("strange=%d\n", strange);
    return 0;
}
