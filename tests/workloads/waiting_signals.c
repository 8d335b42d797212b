/* Executes a program with a signal that is blocked and waits: waiting_signals NUMBER -- PROGRAM [ARGUMENT ...]
 *
 * waiting_signals NUMBER again: prints whether it is blocked and waits, twice with some work between, and lets it through, which ends it. */
#include "work.h"
#include <signal.h>

int main(int argc, char **argv) {
    CHECK(argc > 2);
    int number = atoi(argv[1]);
    sigset_t set;
    if (argc > 3) {
        sigfillset(&set);
        CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
        raise(number);
        execvp(argv[3], argv + 3);
        CHECK(0);
    }
    for (int round = 0; round < 2; round++) {
        CHECK(sigprocmask(SIG_BLOCK, NULL, &set) == 0);
        printf("blocked=%d\n", sigismember(&set, number));
        CHECK(sigpending(&set) == 0);
        printf("waiting=%d\n", sigismember(&set, number));
        burn(0.05);
    }
    fflush(stdout);
    sigemptyset(&set);
    sigaddset(&set, number);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    puts("it did not come");
    return 0;
}
