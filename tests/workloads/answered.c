// Another process answers each question with a signal, which comes within a wait alone: sigsuspend, pselect, ppoll, epoll_pwait. Argument: how many
// questions for each. Prints how many waits ended without the answer, and the answers. With `queued`: three signals wait, and each ends a wait of its own.
#define _GNU_SOURCE
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t answers;
static volatile long spent;

static void on_answer(int signal) {
    answers++;
    (void)signal;
}

static void spend(long rounds) {
    for (long round = 0; round < rounds; round++)
        spent++;
}

static void hear(int signal, sigset_t *open) {
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, signal);
    sigprocmask(SIG_BLOCK, &blocked, open);
    struct sigaction action = {.sa_handler = on_answer};
    sigaction(signal, &action, NULL);
}

static int queued(void) {
    sigset_t open;
    hear(SIGRTMIN, &open);
    for (int count = 0; count < 3; count++)
        sigqueue(getpid(), SIGRTMIN, (union sigval){0});
    for (int count = 0; count < 3; count++) {
        sigsuspend(&open);
        printf("%ld\n", (long)answers);
    }
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "queued") == 0)
        return queued();
    sigset_t open;
    hear(SIGUSR1, &open);
    int questions[2], poller = epoll_create1(0);
    if (pipe(questions) != 0)
        return 2;
    pid_t asker = getpid();
    if (fork() == 0) {
        char question;
        close(questions[1]);
        while (read(questions[0], &question, 1) == 1) {
            spend(60000);
            kill(asker, SIGUSR1);
        }
        _exit(0);
    }
    close(questions[0]);
    long early = 0, asked = 0;
    for (int kind = 0; kind < 4; kind++)
        for (long count = atol(argv[1]); count > 0; count--) {
            struct epoll_event event;
            spend(asked * 37 % 200 * 1000);
            if (write(questions[1], "?", 1) != 1)
                return 3;
            for (asked++; answers < asked; early += answers < asked)
                switch (kind) {
                case 0: sigsuspend(&open); break;
                case 1: pselect(0, NULL, NULL, NULL, NULL, &open); break;
                case 2: ppoll(NULL, 0, NULL, &open); break;
                case 3: epoll_pwait(poller, &event, 1, -1, &open); break;
                }
        }
    close(questions[1]);
    wait(NULL);
    printf("%ld early, %ld answers\n", early, (long)answers);
}
