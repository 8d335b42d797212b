/* Runs until SIGTERM, whoever attaches meanwhile: attached [KIND...]
 *
 * Each kind is a thread or more: `compute` is in `often` and `seldom`, and tells the units of work in both; `births` makes and joins threads;
 * `allocate` uses the heap all the time; `load` opens and closes libraries; `signals` has a handler that is called 2000 times a second. `nanosleep`,
 * `poll`, `futex`, `futex-forever`, `epoll`, `read` wait, and look whether the wait was as long as it should be and was not interrupted. Prints
 * `ready PID`, and at the end how often each was done and `faults=N`, with a line for each fault. */
#include "work.h"
#include <dlfcn.h>
#include <errno.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

static atomic_ulong births, allocations, loads, caught, waits, often_units, seldom_units, faults;
static atomic_int stops;
static volatile uint64_t sink;

static void fault(const char *what, const char *where, double took) {
    printf("fault: %s in %s after %.4f s\n", what, where, took);
    fflush(stdout);
    faults++;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec + time.tv_nsec / 1e9;
}

/* A wait for `wanted` seconds has returned `result`. A busy machine makes it longer, nothing makes it shorter. */
static void judge(const char *where, long result, double begun, double wanted) {
    int error = errno;
    double took = now() - begun;
    if (result < 0 && error == EINTR) fault("EINTR", where, took);
    else if (took < wanted - 0.002) fault("too short", where, took);
    waits++;
}

static void *naps(void *unused) {
    while (!stops) {
        struct timespec time = {0, 50000000};
        double begun = now();
        judge("nanosleep", nanosleep(&time, NULL), begun, 0.05);
    }
    return unused;
}

static void *polls(void *unused) {
    while (!stops) {
        double begun = now();
        judge("poll", poll(NULL, 0, 60), begun, 0.06);
    }
    return unused;
}

static void *futexes(void *unused) {
    int word = 0;
    while (!stops) {
        struct timespec time = {0, 70000000};
        double begun = now();
        judge("futex", syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &time, NULL, 0), begun, 0.07);
    }
    return unused;
}

static int eternal;

/* Nobody wakes it but the end. */
static void *futex_for_ever(void *unused) {
    while (!stops) {
        double begun = now();
        judge("futex without timeout", syscall(SYS_futex, &eternal, FUTEX_WAIT_PRIVATE, 0, NULL, NULL, 0), begun, 0);
    }
    return unused;
}

static void *epolls(void *unused) {
    int set = epoll_create1(EPOLL_CLOEXEC);
    CHECK(set >= 0);
    while (!stops) {
        struct epoll_event event;
        double begun = now();
        judge("epoll_wait", epoll_wait(set, &event, 1, 80), begun, 0.08);
    }
    close(set);
    return unused;
}

static int line[2];

static void *reads(void *unused) {
    char byte;
    while (!stops) {
        double begun = now();
        judge("read", read(line[0], &byte, 1), begun, 0);
    }
    return unused;
}

static void *writes(void *unused) {
    while (!stops) {
        struct timespec time = {0, 20000000};
        nanosleep(&time, NULL);
        CHECK(write(line[1], "x", 1) == 1);
    }
    CHECK(write(line[1], "x", 1) == 1);
    return unused;
}

static void *born(void *unused) {
    void *memory = malloc(1000);
    CHECK(memory);
    memset(memory, 1, 1000);
    for (int i = 0; i < 20000; i++) sink += i;
    free(memory);
    return unused;
}

static void *bears(void *unused) {
    while (!stops) {
        pthread_t children[4];
        for (int i = 0; i < 4; i++) CHECK(pthread_create(&children[i], NULL, born, NULL) == 0);
        for (int i = 0; i < 4; i++) CHECK(pthread_join(children[i], NULL) == 0);
        births += 4;
    }
    return unused;
}

static void *allocates(void *unused) {
    void *kept[64] = {NULL};
    unsigned seed = 7;
    while (!stops) {
        int at = rand_r(&seed) % 64;
        size_t bytes = 1 + rand_r(&seed) % 20000;
        free(kept[at]);
        kept[at] = malloc(bytes);
        CHECK(kept[at]);
        memset(kept[at], at, bytes < 64 ? bytes : 64);
        allocations++;
    }
    for (int i = 0; i < 64; i++) free(kept[i]);
    return unused;
}

static void *opens(void *unused) {
    while (!stops) {
        void *library = dlopen("libresolv.so.2", RTLD_NOW);
        if (!library) fault(dlerror(), "dlopen", 0);
        else dlclose(library);
        loads++;
    }
    return unused;
}

/* They do not ask for their CPU time: where processors are short, the kernel takes that call as an occasion to take the processor away, so that its
 * tick would be in step with the loop. Nor is their work of constant length, for the same reason. */
__attribute__((noinline)) static uint64_t often(uint64_t value, long units) {
    WORK(units, value);
    return value;
}

__attribute__((noinline)) static uint64_t seldom(uint64_t value, long units) {
    WORK(units, value);
    return value;
}

static void *computes(void *unused) {
    uint64_t value = 88172645463325252ull;
    while (!stops) {
        long more = 4500 + (long)(value % 3000), less = 1500 + (long)(value / 3000 % 1000);
        value = often(value, more);
        value = seldom(value, less);
        often_units += more;
        seldom_units += less;
    }
    sink += value;
    return unused;
}

static void on_signal(int signal) {
    (void)signal;
    caught++;
}

static void begin(void *(*routine)(void *)) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, routine, NULL) == 0);
    CHECK(pthread_detach(thread) == 0);
}

int main(int count, char **words) {
    static const struct { const char *name; void *(*routine)(void *); } kinds[] = {
        {"compute", computes}, {"births", bears}, {"allocate", allocates}, {"load", opens}, {"nanosleep", naps}, {"poll", polls},
        {"futex", futexes}, {"futex-forever", futex_for_ever}, {"epoll", epolls}, {"read", reads}, {"read", writes},
    };
    sigset_t all, end;
    sigfillset(&all);
    sigemptyset(&end);
    sigaddset(&end, SIGTERM);
    CHECK(pipe(line) == 0);
    CHECK(pthread_sigmask(SIG_SETMASK, &all, NULL) == 0);
    for (int i = 1; i < count; i++)
        for (unsigned k = 0; k < sizeof kinds / sizeof *kinds; k++)
            if (strcmp(words[i], kinds[k].name) == 0) begin(kinds[k].routine);
    /* The handler runs in one more thread, so that no wait of the others is interrupted by it. */
    for (int i = 1; i < count; i++)
        if (strcmp(words[i], "signals") == 0) {
            struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
            struct itimerval often_enough = {{0, 500}, {0, 500}};
            sigset_t alarms;
            sigemptyset(&alarms);
            sigaddset(&alarms, SIGALRM);
            CHECK(sigaction(SIGALRM, &action, NULL) == 0);
            CHECK(pthread_sigmask(SIG_UNBLOCK, &alarms, NULL) == 0);
            begin(computes);
            CHECK(pthread_sigmask(SIG_BLOCK, &alarms, NULL) == 0);
            CHECK(setitimer(ITIMER_REAL, &often_enough, NULL) == 0);
        }
    printf("ready %d\n", getpid());
    fflush(stdout);
    int signal = 0;
    CHECK(sigwait(&end, &signal) == 0 && signal == SIGTERM);
    stops = 1;
    eternal = 1;
    syscall(SYS_futex, &eternal, FUTEX_WAKE_PRIVATE, 100, NULL, NULL, 0);
    printf("births=%lu\nallocations=%lu\nloads=%lu\ncaught=%lu\nwaits=%lu\noften_units=%lu\nseldom_units=%lu\nfaults=%lu\n", births, allocations, loads, caught, waits,
           often_units, seldom_units, faults);
    fflush(stdout);
    _exit(0);
}
