/* A program that uses SIGPROF itself, next to threads that wait for all signals or block them all.
 *
 * sigprof_user [--seconds S]. Prints `ticks=` of its own ITIMER_PROF, and fails when signals do not behave. */
#include "work.h"
#include <errno.h>
#include <signal.h>
#include <sys/time.h>

static volatile sig_atomic_t ticks;
static double seconds;

static void on_tick(int number, siginfo_t *info, void *context) {
    (void)info, (void)context;
    ticks += number == SIGPROF;
}

static void *waits_for_all(void *unused) {
    (void)unused;
    sigset_t all;
    int number = 0;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    pthread_setname_np(pthread_self(), "waiter");
    /* The kernel may give a tick of the process to whoever waits for it. */
    do {
        CHECK(sigwait(&all, &number) == 0);
        ticks += number == SIGPROF;
    } while (number == SIGPROF);
    CHECK(number == SIGUSR1);
    return NULL;
}

static void *blocks_all(void *unused) {
    (void)unused;
    sigset_t all, now;
    sigfillset(&all);
    CHECK(pthread_sigmask(SIG_SETMASK, &all, NULL) == 0);
    CHECK(pthread_sigmask(SIG_SETMASK, NULL, &now) == 0);
    CHECK(sigismember(&now, SIGPROF) == 1 && sigismember(&now, SIGTERM) == 1);
    pthread_setname_np(pthread_self(), "blocked");
    burn(seconds);
    return NULL;
}

int main(int argc, char **argv) {
    seconds = option(argc, argv, "--seconds", 0.5);
    struct sigaction old, mine = {0}, seen;
    mine.sa_sigaction = on_tick;
    mine.sa_flags = SA_SIGINFO | SA_RESTART;
    sigaddset(&mine.sa_mask, SIGUSR2);
    CHECK(sigaction(SIGPROF, NULL, &old) == 0 && old.sa_handler == SIG_DFL);
    CHECK(sigaction(SIGPROF, &mine, &old) == 0 && old.sa_handler == SIG_DFL);
    CHECK(sigaction(SIGPROF, NULL, &seen) == 0);
    CHECK(seen.sa_sigaction == on_tick && (seen.sa_flags & (SA_SIGINFO | SA_RESTART)) == (SA_SIGINFO | SA_RESTART));
    CHECK(sigismember(&seen.sa_mask, SIGUSR2) == 1 && sigismember(&seen.sa_mask, SIGUSR1) == 0);

    pthread_t waiter, blocked;
    sigset_t usr1;
    sigemptyset(&usr1);
    sigaddset(&usr1, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &usr1, NULL);
    CHECK(pthread_create(&waiter, NULL, waits_for_all, NULL) == 0);
    CHECK(pthread_create(&blocked, NULL, blocks_all, NULL) == 0);

    struct itimerval every = {{0, 10000}, {0, 10000}}, none = {{0, 0}, {0, 0}};
    CHECK(setitimer(ITIMER_PROF, &every, NULL) == 0);
    burn(seconds);
    CHECK(setitimer(ITIMER_PROF, &none, NULL) == 0);
    pthread_join(blocked, NULL);
    pthread_kill(waiter, SIGUSR1);
    pthread_join(waiter, NULL);

    /* A direct delivery, an ignored one, and back to the default without dying of a stray tick. */
    int before = ticks;
    raise(SIGPROF);
    CHECK(ticks == before + 1);
    CHECK(signal(SIGPROF, SIG_IGN) == (sighandler_t)on_tick);
    raise(SIGPROF);
    CHECK(ticks == before + 1);
    CHECK(signal(SIGPROF, SIG_DFL) == SIG_IGN);
    burn(0.1);
    printf("ticks=%d cpu=%.6f\n", before, process_cpu());
    return 0;
}
