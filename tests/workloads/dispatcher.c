/* All threads block all signals, and one takes them by waiting, SIGPROF among them, for which there is a handler as well. Prints `ok`. */
#include "work.h"
#include <signal.h>

static void never(int number) {
    (void)number;
    abort();
}

static void *dispatch(void *unused) {
    (void)unused;
    sigset_t all;
    int number = 0;
    sigfillset(&all);
    for (int i = 0; i < 3; i++) {
        /* SIGALRM says that it does not come. */
        CHECK(sigwait(&all, &number) == 0 && number == SIGPROF);
        if (i < 2) CHECK(kill(getpid(), SIGPROF) == 0);
    }
    return NULL;
}

int main(void) {
    sigset_t all;
    pthread_t thread;
    struct sigaction action = {.sa_handler = never};
    sigfillset(&all);
    CHECK(sigaction(SIGPROF, &action, NULL) == 0 && sigprocmask(SIG_BLOCK, &all, NULL) == 0);
    CHECK(pthread_create(&thread, NULL, dispatch, NULL) == 0);
    alarm(20);
    burn(0.05);
    CHECK(kill(getpid(), SIGPROF) == 0 && pthread_join(thread, NULL) == 0);
    puts("ok");
    return 0;
}
