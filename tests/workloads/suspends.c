/* Sends itself a signal that it blocks, and waits for it by sigsuspend, again and again until SIGTERM, which comes between two rounds alone. A wait that
 * is begun once more after its signal has come never ends. Prints `ready PID`, and `rounds=N`. */
#include "work.h"
#include <signal.h>
#include <unistd.h>

static volatile sig_atomic_t resumed, stops;

static void on_resume(int signal) { resumed = signal; }

static void on_end(int signal) { stops = signal; }

int main(void) {
    struct sigaction resume = {.sa_handler = on_resume}, end = {.sa_handler = on_end};
    sigset_t own, before, all;
    long rounds = 0;
    sigemptyset(&own);
    sigaddset(&own, SIGUSR2);
    sigfillset(&all);
    sigdelset(&all, SIGUSR2);
    CHECK(sigaction(SIGUSR2, &resume, NULL) == 0 && sigaction(SIGTERM, &end, NULL) == 0);
    printf("ready %d\n", getpid());
    fflush(stdout);
    while (!stops) {
        CHECK(sigprocmask(SIG_BLOCK, &own, &before) == 0);
        resumed = 0;
        raise(SIGUSR2);
        while (!resumed) sigsuspend(&all);
        CHECK(sigprocmask(SIG_SETMASK, &before, NULL) == 0);
        rounds++;
    }
    printf("rounds=%ld\n", rounds);
    return 0;
}
