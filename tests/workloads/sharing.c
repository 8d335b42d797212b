/* Programs that share signals, stacks and filters with a profiler in ways that went wrong once: sharing MODE. Prints `ok MODE`. */
#include "work.h"
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>

static volatile sig_atomic_t handled;

static void note(int number) {
    (void)number;
    handled = 1;
}

/* More than a small alternate stack holds. */
static void note_with_a_large_frame(int number) {
    (void)number;
    volatile char frame[120 * 1024];
    memset((char *)frame, 1, sizeof frame);
    handled = frame[100] == 1;
}

static void *fork_here(void *unused) {
    (void)unused;
    int status = 0;
    pid_t child = fork();
    if (child == 0) _exit(7);
    CHECK(waitpid(child, &status, 0) == child);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
    return NULL;
}

static void *burn_here(void *unused) {
    (void)unused;
    burn(0.3);
    return NULL;
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    pthread_t thread;
    if (strcmp(mode, "sigwait") == 0) {
        /* The program takes its ITIMER_PROF by waiting, and has a handler for it too. */
        struct itimerval every = {{0, 10000}, {0, 10000}};
        sigset_t only;
        int number = 0;
        sigemptyset(&only);
        sigaddset(&only, SIGPROF);
        signal(SIGPROF, note);
        CHECK(pthread_sigmask(SIG_BLOCK, &only, NULL) == 0);
        CHECK(setitimer(ITIMER_PROF, &every, NULL) == 0);
        burn(0.1);
        CHECK(sigwait(&only, &number) == 0 && number == SIGPROF);
    } else if (strcmp(mode, "small-fork") == 0) {
        pthread_attr_t small;
        CHECK(pthread_attr_init(&small) == 0 && pthread_attr_setstacksize(&small, 16384) == 0);
        CHECK(pthread_create(&thread, &small, fork_here, NULL) == 0);
        pthread_join(thread, NULL);
    } else if (strcmp(mode, "large-handler") == 0) {
        struct sigaction action = {0};
        action.sa_handler = note_with_a_large_frame;
        action.sa_flags = SA_ONSTACK;
        CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
        raise(SIGUSR1);
        CHECK(handled);
    } else if (strcmp(mode, "seccomp-probe") == 0) {
        CHECK(prctl(PR_SET_SECCOMP, 2, NULL) == -1);
        CHECK(pthread_create(&thread, NULL, burn_here, NULL) == 0);
        pthread_join(thread, NULL);
    } else {
        CHECK(!"a known mode");
    }
    printf("ok %s\n", mode);
    return 0;
}
