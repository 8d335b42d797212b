// Locks in the ways that hang programs.
//
// lock_storms WHAT ...:
//   deadlock THREADS N    N children whose threads wait for each other's mutexes, reader-writer locks and so on in a ring, for ever; each then ends in
//                         another way: by exit, _exit, a signal that can be handled, and one that cannot
//   inversion N           N times on one processor: a thread of low priority holds a lock that one of high priority waits for, while one between
//                         them computes. By mutexes with and without priority inheritance and ceiling, reader-writer locks, semaphores, conditions
#define _GNU_SOURCE
#include "asleep.h"
#include "work.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX 16

static pthread_mutex_t mutexes[MAX];
static pthread_rwlock_t rwlocks[MAX];
static pthread_barrier_t all_hold;
static atomic_int waiting;
static int threads, with_rwlocks, numbers[MAX];

// A ring: each holds its own and wants its neighbour's.
static void *wants_the_next(void *argument)
{
    long own = (long)argument, next = (own + 1) % threads;
    numbers[own] = (int)syscall(SYS_gettid);
    if (with_rwlocks)
        CHECK(pthread_rwlock_wrlock(&rwlocks[own]) == 0);
    else
        CHECK(pthread_mutex_lock(&mutexes[own]) == 0);
    pthread_barrier_wait(&all_hold);
    atomic_fetch_add(&waiting, 1);
    if (with_rwlocks)
        pthread_rwlock_rdlock(&rwlocks[next]);
    else
        pthread_mutex_lock(&mutexes[next]);
    CHECK(!"nobody gives it back");
    return NULL;
}

static void deadlock(int round)
{
    pthread_t thread;
    with_rwlocks = round / 4 % 2;
    pthread_barrier_init(&all_hold, NULL, threads);
    for (long i = 0; i < threads; i++) {
        pthread_mutex_init(&mutexes[i], NULL);
        pthread_rwlock_init(&rwlocks[i], NULL);
    }
    for (long i = 0; i < threads; i++)
        CHECK(pthread_create(&thread, NULL, wants_the_next, (void *)i) == 0);
    while (atomic_load(&waiting) != threads)
        sched_yield();
    // They may lose the processor on their way to the lock.
    for (int i = 0; i < threads; i++)
        until_asleep(numbers[i]);
    for (int i = 0; i < threads; i++) {
        CHECK(pthread_mutex_trylock(&mutexes[i]) == (with_rwlocks ? 0 : EBUSY));
        CHECK(pthread_rwlock_trywrlock(&rwlocks[i]) == (with_rwlocks ? EBUSY : 0));
    }
    struct timespec soon;
    clock_gettime(CLOCK_REALTIME, &soon);
    soon.tv_nsec += 5000000;
    soon.tv_sec += soon.tv_nsec / 1000000000;
    soon.tv_nsec %= 1000000000;
    CHECK(pthread_timedjoin_np(thread, NULL, &soon) == ETIMEDOUT);
    switch (round % 4) {
    case 0:
        exit(7);
    case 1:
        _exit(7);
    case 2:
        raise(SIGTERM);
        break;
    default:
        raise(SIGKILL);
    }
}

static void deadlocks(int rounds)
{
    for (int round = 0; round < rounds; round++) {
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0) {
            deadlock(round);
            abort();
        }
        int status;
        while (waitpid(child, &status, 0) < 0)
            CHECK(errno == EINTR);
        if (round % 4 < 2)
            CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
        else
            CHECK(WIFSIGNALED(status) && WTERMSIG(status) == (round % 4 == 2 ? SIGTERM : SIGKILL));
    }
    printf("deadlocks=%d\n", rounds);
}

enum way { PLAIN, INHERITS, CEILING, READ_WRITE, SEMAPHORE, CONDITION, WAYS };

static enum way way;
static pthread_mutex_t mutex;
static pthread_rwlock_t rwlock;
static sem_t semaphore;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_mutex_t guard = PTHREAD_MUTEX_INITIALIZER;
static int is_free;
static atomic_int is_held, is_wanted, is_done, is_realtime;

// Real-time priorities where they are allowed, else nice values.
static void be_of(int priority)
{
    struct sched_param wanted = {.sched_priority = priority};
    if (pthread_setschedparam(pthread_self(), SCHED_FIFO, &wanted) == 0)
        atomic_store(&is_realtime, 1);
    else
        setpriority(PRIO_PROCESS, syscall(SYS_gettid), 19 - 5 * priority);
}

static void take(void)
{
    if (way == READ_WRITE) {
        CHECK(pthread_rwlock_wrlock(&rwlock) == 0);
    } else if (way == SEMAPHORE) {
        while (sem_wait(&semaphore))
            CHECK(errno == EINTR);
    } else if (way == CONDITION) {
        CHECK(pthread_mutex_lock(&guard) == 0);
        while (!is_free)
            CHECK(pthread_cond_wait(&condition, &guard) == 0);
        is_free = 0;
        CHECK(pthread_mutex_unlock(&guard) == 0);
    } else {
        CHECK(pthread_mutex_lock(&mutex) == 0);
    }
}

static void give(void)
{
    if (way == READ_WRITE) {
        CHECK(pthread_rwlock_unlock(&rwlock) == 0);
    } else if (way == SEMAPHORE) {
        CHECK(sem_post(&semaphore) == 0);
    } else if (way == CONDITION) {
        CHECK(pthread_mutex_lock(&guard) == 0);
        is_free = 1;
        CHECK(pthread_cond_signal(&condition) == 0);
        CHECK(pthread_mutex_unlock(&guard) == 0);
    } else {
        CHECK(pthread_mutex_unlock(&mutex) == 0);
    }
}

static void compute_us(int us)
{
    struct timespec begin, now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    while ((now.tv_sec - begin.tv_sec) * 1000000 + (now.tv_nsec - begin.tv_nsec) / 1000 < us);
}

static void *low(void *unused)
{
    (void)unused;
    be_of(1);
    take();
    atomic_store(&is_held, 1);
    while (!atomic_load(&is_wanted))
        usleep(100);
    compute_us(300);
    give();
    return NULL;
}

static void *middle(void *unused)
{
    (void)unused;
    be_of(2);
    while (!atomic_load(&is_wanted))
        usleep(100);
    // Without inheritance the holder has to wait for the end of this.
    for (int i = 0; i < 20 && !atomic_load(&is_done); i++)
        compute_us(200);
    return NULL;
}

static void *high(void *unused)
{
    (void)unused;
    be_of(3);
    while (!atomic_load(&is_held))
        usleep(100);
    atomic_store(&is_wanted, 1);
    take();
    atomic_store(&is_done, 1);
    give();
    return NULL;
}

static void inversion(int round)
{
    way = round % WAYS;
    is_held = is_wanted = is_done = 0;
    is_free = 1;
    pthread_mutexattr_t attributes;
    CHECK(pthread_mutexattr_init(&attributes) == 0);
    if (way == INHERITS)
        CHECK(pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT) == 0);
    // A ceiling needs the right to real-time priorities.
    if (way == CEILING && atomic_load(&is_realtime)) {
        CHECK(pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_PROTECT) == 0);
        CHECK(pthread_mutexattr_setprioceiling(&attributes, 4) == 0);
    }
    CHECK(pthread_mutex_init(&mutex, &attributes) == 0);
    CHECK(pthread_rwlock_init(&rwlock, NULL) == 0 && sem_init(&semaphore, 0, 1) == 0);
    void *(*const what[3])(void *) = {low, middle, high};
    pthread_t all[3];
    for (int i = 0; i < 3; i++)
        CHECK(pthread_create(&all[i], NULL, what[i], NULL) == 0);
    for (int i = 0; i < 3; i++)
        CHECK(pthread_join(all[i], NULL) == 0);
    CHECK(pthread_mutex_destroy(&mutex) == 0 && pthread_rwlock_destroy(&rwlock) == 0);
}

int main(int argc, char **argv)
{
    CHECK(argc >= 3);
    if (strcmp(argv[1], "deadlock") == 0) {
        threads = atoi(argv[2]);
        CHECK(argc >= 4 && threads >= 2 && threads <= MAX);
        deadlocks(atoi(argv[3]));
    } else {
        cpu_set_t one;
        CPU_ZERO(&one);
        CPU_SET(sched_getcpu(), &one);
        CHECK(sched_setaffinity(0, sizeof one, &one) == 0);
        int rounds = atoi(argv[2]);
        for (int round = 0; round < rounds; round++)
            inversion(round);
        printf("inversions=%d\nrealtime=%d\n", rounds, atomic_load(&is_realtime));
    }
    return 0;
}
