/* Waits in every way that programs do, in a function of its own each, and checks that each wait runs its full length.
 *
 * waits [--scale N] [--undumpable 1]. Per wait it prints `result NAME: VALUE ERRNO` and `NAME=seconds` as the program itself measured;
 * at the end `interrupted=` and `early=` over all. --scale multiplies all lengths; --undumpable hides the process from its parents. */
#include "work.h"
#include <errno.h>
#include <stddef.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

/* As of a GPU's driver: the number of its request to wait for events. */
#define LONG_REQUEST 0xc0184b0cu

static double scale = 1;
static int sockets[2], pipes[2], epoll_fd, device, listener;
static sem_t never;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, other = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;

static struct timespec span(double seconds) {
    return (struct timespec){(time_t)seconds, (long)(1e9 * (seconds - (double)(time_t)seconds))};
}
static struct timespec later(double seconds) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    double nanoseconds = (double)now.tv_nsec + 1e9 * seconds;
    return (struct timespec){now.tv_sec + (time_t)(nanoseconds / 1e9), (long)nanoseconds % 1000000000L};
}

/* Each waits for so many seconds and returns what its call returned. */
#define WAIT static __attribute__((noinline)) long
WAIT in_sleep(double s) { return sleep((unsigned)s); }
WAIT in_nanosleep(double s) {
    struct timespec t = span(s);
    return nanosleep(&t, NULL);
}
WAIT in_poll(double s) {
    struct pollfd p = {sockets[0], POLLIN, 0};
    return poll(&p, 1, (int)(1e3 * s));
}
WAIT in_select(double s) {
    fd_set set;
    struct timeval t = {(time_t)s, (long)(1e6 * (s - (double)(time_t)s))};
    FD_ZERO(&set);
    FD_SET(sockets[0], &set);
    return select(sockets[0] + 1, &set, NULL, NULL, &t);
}
WAIT in_epoll(double s) {
    struct epoll_event e;
    return epoll_wait(epoll_fd, &e, 1, (int)(1e3 * s));
}
WAIT in_recv(double s) {
    struct timeval t = {(time_t)s, (long)(1e6 * (s - (double)(time_t)s))};
    char c;
    CHECK(setsockopt(sockets[0], SOL_SOCKET, SO_RCVTIMEO, &t, sizeof t) == 0);
    return recv(sockets[0], &c, 1, 0);
}
WAIT in_semaphore(double s) {
    struct timespec end = later(s);
    return sem_timedwait(&never, &end);
}
WAIT in_condition(double s) {
    struct timespec end = later(s);
    pthread_mutex_lock(&other);
    long result;
    do result = pthread_cond_timedwait(&condition, &other, &end);
    while (result == 0);
    pthread_mutex_unlock(&other);
    return result;
}
/* These end when the helper does something. */
WAIT in_mutex(double s) {
    (void)s;
    long result = pthread_mutex_lock(&mutex);
    pthread_mutex_unlock(&mutex);
    return result;
}
WAIT in_pipe(double s) {
    (void)s;
    /* A large frame: the caller's lies far from the stack pointer. */
    volatile char buffer[50000];
    return read(pipes[0], (char *)buffer, sizeof buffer);
}
WAIT in_ioctl(double s) {
    (void)s;
    /* A driver that takes its time: the helper answers in the place of the kernel. */
    return ioctl(device, LONG_REQUEST, 0);
}
WAIT in_child(double s) {
    pid_t child = fork();
    if (child == 0) {
        struct timespec t = span(s);
        nanosleep(&t, NULL);
        _exit(7);
    }
    int status;
    return waitpid(child, &status, 0) == child ? WEXITSTATUS(status) : -1;
}

static const struct { const char *name; long (*wait)(double); double seconds; int helped; } waits[] = {
    {"in_sleep", in_sleep, 1, 0},           {"in_nanosleep", in_nanosleep, 0.3, 0}, {"in_poll", in_poll, 0.2, 0},
    {"in_select", in_select, 0.25, 0},      {"in_epoll", in_epoll, 0.35, 0},        {"in_recv", in_recv, 0.2, 0},
    {"in_semaphore", in_semaphore, 0.3, 0}, {"in_condition", in_condition, 0.4, 0}, {"in_mutex", in_mutex, 0.3, 1},
    {"in_pipe", in_pipe, 0.5, 1},           {"in_ioctl", in_ioctl, 0.5, 1},         {"in_child", in_child, 0.2, 0},
};
#define WAITS (sizeof waits / sizeof *waits)

/* From here on, LONG_REQUEST of the calling thread waits for an answer from whoever reads the descriptor. */
static int intercept_requests(void) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, LONG_REQUEST, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    return (int)syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_NEW_LISTENER, &program);
}

static void answer_request(double seconds) {
    struct seccomp_notif request;
    memset(&request, 0, sizeof request);
    CHECK(ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, &request) == 0);
    struct timespec t = span(seconds);
    while (nanosleep(&t, &t) != 0) {}
    struct seccomp_notif_resp response = {request.id, 5, 0, 0};
    CHECK(ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, &response) == 0);
}

/* Waits itself until the main thread's wait shall end. */
static void *helper(void *unused) {
    prctl(PR_SET_NAME, "helper");
    for (size_t i = 0; i < WAITS; i++) {
        if (!waits[i].helped) continue;
        if (waits[i].wait == in_mutex) pthread_mutex_lock(&mutex);
        pthread_barrier_wait(&barrier);
        if (waits[i].wait == in_ioctl) {
            answer_request(scale * waits[i].seconds);
            continue;
        }
        struct timespec t = span(scale * waits[i].seconds);
        while (nanosleep(&t, &t) != 0) {}
        if (waits[i].wait == in_mutex) pthread_mutex_unlock(&mutex);
        if (waits[i].wait == in_pipe) CHECK(write(pipes[1], "x", 1) == 1);
    }
    return unused;
}

int main(int argc, char **argv) {
    int interrupted = 0, early = 0;
    scale = option(argc, argv, "--scale", 1);
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0 && pipe(pipes) == 0);
    CHECK((epoll_fd = epoll_create1(0)) >= 0 && sem_init(&never, 0, 0) == 0);
    CHECK((device = open("/dev/null", O_RDWR)) >= 0);
    if (option(argc, argv, "--undumpable", 0) != 0) CHECK(prctl(PR_SET_DUMPABLE, 0) == 0);
    CHECK(pthread_barrier_init(&barrier, NULL, 2) == 0);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, helper, NULL) == 0);
    CHECK((listener = intercept_requests()) >= 0);
    for (size_t i = 0; i < WAITS; i++) {
        burn(0.02);
        double seconds = scale * waits[i].seconds;
        if (waits[i].wait == in_sleep) seconds = (unsigned)(seconds + 0.999);
        if (waits[i].helped) pthread_barrier_wait(&barrier);
        double start = clock_seconds(CLOCK_MONOTONIC);
        errno = 0;
        long result = waits[i].wait(seconds);
        int error = errno;
        double length = clock_seconds(CLOCK_MONOTONIC) - start;
        interrupted += error == EINTR;
        /* The helper may have begun before. */
        early += !waits[i].helped && length < seconds - 0.002;
        printf("result %s: %ld %d\n%s=%.6f\n", waits[i].name, result, error, waits[i].name, length);
    }
    pthread_join(thread, NULL);
    printf("interrupted=%d\nearly=%d\n", interrupted, early);
    return 0;
}
