/* Counts interruptions and early returns of system calls that wait, while this thread and another one burn CPU time.
 *
 * eintr [--rounds N]. Prints one line per call and `interrupted=` for all of them; a calm system gives 0. */
#include "work.h"
#include <errno.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/msg.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/time.h>

#define WAIT_MS 6

static const struct timespec wait_time = {0, WAIT_MS * 1000000L};
static int sockets[2], epoll_fd, queue;
static sem_t never;
static volatile int stop;

/* Each returns 0 when the wait ran its full length, else what went wrong. */
static int from_result(long result) { return result < 0 ? errno : 0; }
static int do_poll(void) { struct pollfd p = {sockets[0], POLLIN, 0}; return from_result(poll(&p, 1, WAIT_MS)); }
static int do_ppoll(void) { struct pollfd p = {sockets[0], POLLIN, 0}; return from_result(ppoll(&p, 1, &wait_time, NULL)); }
static int do_select(void) {
    fd_set set;
    struct timeval wait = {0, WAIT_MS * 1000};
    FD_ZERO(&set);
    FD_SET(sockets[0], &set);
    return from_result(select(sockets[0] + 1, &set, NULL, NULL, &wait));
}
static int do_epoll(void) { struct epoll_event e; return from_result(epoll_wait(epoll_fd, &e, 1, WAIT_MS)); }
static int do_nanosleep(void) { return from_result(nanosleep(&wait_time, NULL)); }
static int do_clock_nanosleep(void) { return clock_nanosleep(CLOCK_MONOTONIC, 0, &wait_time, NULL); }
static int do_usleep(void) { return from_result(usleep(WAIT_MS * 1000)); }
static int do_semaphore(void) {
    struct timespec end;
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_nsec += WAIT_MS * 1000000L;
    end.tv_sec += end.tv_nsec / 1000000000L;
    end.tv_nsec %= 1000000000L;
    return sem_timedwait(&never, &end) == 0 ? -1 : errno == ETIMEDOUT ? 0 : errno;
}
static int do_recv(void) { char c; return recv(sockets[0], &c, 1, 0) >= 0 ? -1 : errno == EAGAIN ? 0 : errno; }
static int do_sigtimedwait(void) {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    return sigtimedwait(&set, NULL, &wait_time) >= 0 ? -1 : errno == EAGAIN ? 0 : errno;
}
/* Waiting for all signals must not show a signal that the program does not know of. */
static int do_sigtimedwait_all(void) {
    sigset_t set;
    sigfillset(&set);
    return sigtimedwait(&set, NULL, &wait_time) >= 0 ? -1 : errno == EAGAIN ? 0 : errno;
}

static const struct { const char *name; int (*call)(void); } calls[] = {
    {"poll", do_poll}, {"ppoll", do_ppoll}, {"select", do_select}, {"epoll_wait", do_epoll},
    {"nanosleep", do_nanosleep}, {"clock_nanosleep", do_clock_nanosleep}, {"usleep", do_usleep},
    {"sem_timedwait", do_semaphore}, {"recv", do_recv}, {"sigtimedwait", do_sigtimedwait},
    {"sigtimedwait_all", do_sigtimedwait_all},
};

static void *burner(void *unused) {
    (void)unused;
    while (!stop) burn(0.002);
    return NULL;
}

/* msgrcv has no timeout: this thread answers each wait with a message after a while. */
static void *sender(void *unused) {
    (void)unused;
    struct { long type; } message = {1};
    while (!stop) {
        burn(0.001);
        usleep(WAIT_MS * 1000);
        msgsnd(queue, &message, 0, IPC_NOWAIT);
    }
    return NULL;
}

int main(int argc, char **argv) {
    int rounds = (int)option(argc, argv, "--rounds", 20), all = 0;
    struct timeval patience = {0, WAIT_MS * 1000};
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
    CHECK(setsockopt(sockets[0], SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0);
    CHECK((epoll_fd = epoll_create1(0)) >= 0);
    struct epoll_event interest = {EPOLLIN, {0}};
    CHECK(epoll_ctl(epoll_fd, EPOLL_CTL_ADD, sockets[0], &interest) == 0);
    CHECK(sem_init(&never, 0, 0) == 0);
    CHECK((queue = msgget(IPC_PRIVATE, 0600)) >= 0);
    sigset_t user;
    sigemptyset(&user);
    sigaddset(&user, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &user, NULL);

    pthread_t threads[2];
    CHECK(pthread_create(&threads[0], NULL, burner, NULL) == 0);
    CHECK(pthread_create(&threads[1], NULL, sender, NULL) == 0);
    for (size_t c = 0; c < sizeof calls / sizeof *calls; c++) {
        int interrupted = 0, early = 0;
        for (int round = 0; round < rounds; round++) {
            burn(0.003);
            double start = clock_seconds(CLOCK_MONOTONIC);
            interrupted += calls[c].call() != 0;
            early += clock_seconds(CLOCK_MONOTONIC) - start < 0.9e-3 * WAIT_MS;
        }
        printf("%s interrupted %d early %d\n", calls[c].name, interrupted, early);
        all += interrupted + early;
    }
    int interrupted = 0;
    for (int round = 0; round < rounds; round++) {
        struct { long type; } message;
        burn(0.003);
        if (msgrcv(queue, &message, 0, 0, 0) < 0) interrupted++;
    }
    unsigned left = 0;
    for (int round = 0; round < 2; round++) {
        burn(0.003);
        left += sleep(1);
    }
    printf("msgrcv interrupted %d early 0\nsleep interrupted %u early 0\n", interrupted, left);
    stop = 1;
    for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
    msgctl(queue, IPC_RMID, NULL);
    printf("interrupted=%d\n", all + interrupted + (int)left);
    return 0;
}
