/* Says which signals it gets, one line each, until SIGTERM: heard [setsid|own-group|handlers|values]. With `handlers` they interrupt work;
 * without, they are waited for. `setsid` and `own-group` leave the process group before. With `values`, it waits for all signals, and says
 * their numbers and what was sent along. */
#include "work.h"
#include <signal.h>

static const int watched[] = {SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGCONT, SIGWINCH, SIGTERM};

static const char *name_of(int signal) {
    switch (signal) {
    case SIGINT: return "INT\n";
    case SIGHUP: return "HUP\n";
    case SIGQUIT: return "QUIT\n";
    case SIGUSR1: return "USR1\n";
    case SIGUSR2: return "USR2\n";
    case SIGALRM: return "ALRM\n";
    case SIGCONT: return "CONT\n";
    case SIGWINCH: return "WINCH\n";
    default: return "TERM\n";
    }
}

static void say(int signal) {
    const char *name = name_of(signal);
    if (write(STDOUT_FILENO, name, strlen(name)) < 0 || signal == SIGTERM) _exit(0);
}

static void values(void) {
    sigset_t set;
    siginfo_t info;
    sigfillset(&set);
    CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    printf("ready %d\n", getpid());
    fflush(stdout);
    for (;;) {
        CHECK(sigwaitinfo(&set, &info) > 0);
        if (info.si_signo == SIGTERM) exit(0);
        printf("%d %d\n", info.si_signo, info.si_code == SI_QUEUE ? info.si_value.sival_int : -1);
        fflush(stdout);
    }
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    if (strcmp(mode, "values") == 0) values();
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof watched / sizeof *watched; i++) sigaddset(&set, watched[i]);
    if (strcmp(mode, "own-group") == 0) CHECK(setpgid(0, 0) == 0);
    if (strcmp(mode, "setsid") == 0 && setsid() < 0) CHECK(setpgid(0, 0) == 0);
    if (strcmp(mode, "handlers") == 0) {
        struct sigaction action = {.sa_handler = say, .sa_mask = set};
        for (size_t i = 0; i < sizeof watched / sizeof *watched; i++) CHECK(sigaction(watched[i], &action, NULL) == 0);
    } else {
        CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
    }
    printf("ready %d\n", getpid());
    fflush(stdout);
    if (strcmp(mode, "handlers") == 0)
        for (;;) burn(0.1);
    for (;;) {
        int signal;
        CHECK(sigwait(&set, &signal) == 0);
        say(signal);
    }
}
