/* Says which signals it gets, one line each, until SIGTERM: heard [setsid|own-group|handlers]. With `handlers` they interrupt work;
 * without, they are waited for. `setsid` and `own-group` leave the process group before. */
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

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
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
