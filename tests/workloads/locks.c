// Threads that wait for locks, in ways that are known.
//
// locks WHAT ...:
//   held KIND ROUNDS MS   one thread holds a lock in each round, by two stacks in turn, for MS milliseconds from when another waits for it. Prints how
//                         long the waits were, by the clock, and how long of that the waiter was blocked: neither running (but for a spin lock)
//                         nor waiting for a processor.
//                         KIND: mutex, timed, c11, read (a reader waits for a writer), write (a writer for a reader), spin, semaphore,
//                         condition, barrier, join
//   count THREADS N       each thread takes a mutex of its own and one of all, N times each, and nobody waits for long
//   pairs N               nanoseconds for a free lock, taken and given back N times, of each kind
//   storm THREADS N       everything at once, N times in each thread: attempts, time-outs, deadlocks that end by them, forks, signals
//   odd                   recursive, error-checking and robust mutexes, results and errno
#define _GNU_SOURCE
// Behind it, a call in front is no tail call, and functions with other words are other functions.
#define KEEP(word) __asm__ volatile("# " word ::: "memory")
#include "asleep.h"
#include "work.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <threads.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static mtx_t c11;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_spinlock_t spin;
static sem_t semaphore;
static pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;

static const char *kind;
static long hold_ms;
static atomic_int turn, is_held, is_wanted;
static pthread_t waiter;
static int counters;

static int is(const char *name) { return strcmp(kind, name) == 0; }

static uint64_t clock_ns(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000ull + time.tv_nsec;
}

static void sleep_ns(long ns)
{
    struct timespec time = {ns / 1000000000, ns % 1000000000};
    while (nanosleep(&time, &time) && errno == EINTR) {
    }
}

static struct timespec in_ms(long ms)
{
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    time.tv_nsec += ms % 1000 * 1000000;
    time.tv_sec += ms / 1000 + time.tv_nsec / 1000000000;
    time.tv_nsec %= 1000000000;
    return time;
}

// A wait as the waiter knows it, from its begin, or of all together.
struct times {
    uint64_t wall, cpu, delay;
};

static uint64_t delay_ns(void)
{
    char line[128] = "";
    CHECK(pread(counters, line, sizeof line - 1, 0) > 0);
    char *second = strchr(line, ' ');
    CHECK(second != NULL);
    return strtoull(second, NULL, 10);
}

static struct times begin(void)
{
    struct times now = {.delay = delay_ns(), .cpu = (uint64_t)(thread_cpu() * 1e9)};
    now.wall = clock_ns();
    return now;
}

static struct times since(struct times begin)
{
    uint64_t wall = clock_ns() - begin.wall, cpu = (uint64_t)(thread_cpu() * 1e9) - begin.cpu;
    return (struct times){wall, cpu, delay_ns() - begin.delay};
}

static uint64_t blocked(struct times times)
{
    uint64_t other = times.delay + (is("spin") ? 0 : times.cpu);
    return times.wall > other ? times.wall - other : 0;
}

static int ready;

static int take(int writer)
{
    struct timespec long_time = in_ms(60000);
    if (is("mutex"))
        return pthread_mutex_lock(&mutex);
    if (is("timed"))
        return pthread_mutex_timedlock(&mutex, &long_time);
    if (is("c11"))
        return mtx_lock(&c11);
    if (is("read") || is("write"))
        return writer ? pthread_rwlock_wrlock(&rwlock) : pthread_rwlock_rdlock(&rwlock);
    if (is("spin"))
        return pthread_spin_lock(&spin);
    return sem_wait(&semaphore);
}

static void give(void)
{
    if (is("mutex") || is("timed"))
        pthread_mutex_unlock(&mutex);
    else if (is("c11"))
        mtx_unlock(&c11);
    else if (is("read") || is("write"))
        pthread_rwlock_unlock(&rwlock);
    else if (is("spin"))
        pthread_spin_unlock(&spin);
    else
        sem_post(&semaphore);
}

// The waiter may lose the processor on its way to the lock.
static void until_it_waits(void)
{
    while (!atomic_load(&is_wanted))
        sched_yield();
    if (!is("spin")) {
        until_asleep(getpid());
        return;
    }
    clockid_t clock;
    CHECK(pthread_getcpuclockid(waiter, &clock) == 0);
    double begin = clock_seconds(clock);
    while (clock_seconds(clock) < begin + 0.001)
        sched_yield();
}

// What the holder does, and what the waiter waits for.
static __attribute__((noinline)) void hold(void)
{
    CHECK(take(is("read")) == 0);
    atomic_store(&is_held, 1);
    until_it_waits();
    sleep_ns(hold_ms * 1000000);
    atomic_store(&is_held, 0);
    give();
    KEEP("held");
}

static __attribute__((noinline)) void hold_by_one_way(void)
{
    hold();
    KEEP("one");
}

static __attribute__((noinline)) void hold_by_another(void)
{
    hold();
    KEEP("another");
}

static void *holder(void *rounds)
{
    for (long round = 0; round < (long)rounds; round++) {
        while (atomic_load(&turn) != 2 * round)
            sched_yield();
        if (round % 2)
            hold_by_another();
        else
            hold_by_one_way();
        atomic_fetch_add(&turn, 1);
    }
    return NULL;
}

static __attribute__((noinline)) struct times wait_here(void)
{
    struct times before = begin();
    atomic_store(&is_wanted, 1);
    CHECK(take(is("write")) == 0);
    struct times waited = since(before);
    give();
    return waited;
}

static void *wake_later(void *unused)
{
    (void)unused;
    until_it_waits();
    sleep_ns(hold_ms * 1000000);
    if (is("condition")) {
        pthread_mutex_lock(&mutex);
        ready = 1;
        pthread_cond_signal(&condition);
        pthread_mutex_unlock(&mutex);
    } else if (is("barrier")) {
        pthread_barrier_wait(&barrier);
    }
    return NULL;
}

static __attribute__((noinline)) struct times wait_for_event(void)
{
    pthread_t thread;
    ready = 0;
    pthread_mutex_lock(&mutex);
    CHECK(pthread_create(&thread, NULL, wake_later, NULL) == 0);
    struct times before = begin();
    atomic_store(&is_wanted, 1);
    while (is("condition") && !ready)
        CHECK(pthread_cond_wait(&condition, &mutex) == 0);
    pthread_mutex_unlock(&mutex);
    if (is("barrier"))
        pthread_barrier_wait(&barrier);
    if (is("join"))
        CHECK(pthread_join(thread, NULL) == 0);
    struct times waited = since(before);
    atomic_store(&is_wanted, 0);
    if (!is("join"))
        CHECK(pthread_join(thread, NULL) == 0);
    return waited;
}

static void held(long rounds)
{
    uint64_t sum = 0, longest = 0, sum_blocked = 0, longest_blocked = 0;
    pthread_t thread;
    waiter = pthread_self();
    counters = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    CHECK(counters >= 0);
    int is_event = is("condition") || is("barrier") || is("join");
    if (!is_event)
        CHECK(pthread_create(&thread, NULL, holder, (void *)rounds) == 0);
    for (long round = 0; round < rounds; round++) {
        struct times waited;
        if (is_event) {
            waited = wait_for_event();
        } else {
            while (!atomic_load(&is_held))
                sched_yield();
            waited = wait_here();
            atomic_store(&is_wanted, 0);
            while (atomic_load(&turn) != 2 * round + 1)
                sched_yield();
            atomic_fetch_add(&turn, 1);
        }
        sum += waited.wall;
        longest = waited.wall > longest ? waited.wall : longest;
        sum_blocked += blocked(waited);
        longest_blocked = blocked(waited) > longest_blocked ? blocked(waited) : longest_blocked;
    }
    if (!is_event)
        CHECK(pthread_join(thread, NULL) == 0);
    printf("rounds=%ld\nwaited_ns=%llu\nlongest_ns=%llu\n", rounds, (unsigned long long)sum, (unsigned long long)longest);
    printf("blocked_ns=%llu\nlongest_blocked_ns=%llu\n", (unsigned long long)sum_blocked, (unsigned long long)longest_blocked);
}

static long count;

static void *count_locks(void *unused)
{
    pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
    (void)unused;
    for (long i = 0; i < count; i++) {
        pthread_mutex_lock(&own);
        pthread_mutex_unlock(&own);
        if (i % 2) {
            pthread_mutex_lock(&mutex);
        } else {
            while (pthread_mutex_trylock(&mutex))
                sched_yield();
        }
        pthread_mutex_unlock(&mutex);
        // A reader-writer lock and a spin lock are counted alike.
        CHECK(pthread_rwlock_rdlock(&rwlock) == 0 && pthread_rwlock_unlock(&rwlock) == 0);
        CHECK(pthread_spin_lock(&spin) == 0 && pthread_spin_unlock(&spin) == 0);
    }
    return NULL;
}

static void in_threads(int threads, void *(*what)(void *))
{
    pthread_t all[64];
    CHECK(threads <= 64);
    for (int i = 0; i < threads; i++)
        CHECK(pthread_create(&all[i], NULL, what, (void *)(long)i) == 0);
    for (int i = 0; i < threads; i++)
        CHECK(pthread_join(all[i], NULL) == 0);
}

#define PAIRS(name, take, give)                                                                   \
    do {                                                                                          \
        double best = 1e9;                                                                        \
        for (int part = 0; part < 20; part++) {                                                   \
            uint64_t begin = clock_ns();                                                          \
            for (long i = 0; i < pairs / 20; i++) {                                               \
                take;                                                                             \
                give;                                                                             \
            }                                                                                     \
            double ns = (double)(clock_ns() - begin) / (pairs / 20);                              \
            best = ns < best ? ns : best;                                                         \
        }                                                                                         \
        printf("%s=%.2f\n", name, best);                                                          \
    } while (0)

static void *measure(void *argument)
{
    long pairs = (long)argument;
    PAIRS("mutex_ns", pthread_mutex_lock(&mutex), pthread_mutex_unlock(&mutex));
    PAIRS("read_ns", pthread_rwlock_rdlock(&rwlock), pthread_rwlock_unlock(&rwlock));
    PAIRS("write_ns", pthread_rwlock_wrlock(&rwlock), pthread_rwlock_unlock(&rwlock));
    PAIRS("spin_ns", pthread_spin_lock(&spin), pthread_spin_unlock(&spin));
    PAIRS("semaphore_ns", sem_wait(&semaphore), sem_post(&semaphore));
    return NULL;
}

static pthread_mutex_t two[2] = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};
static atomic_long signals_seen, timeouts, children;

static void on_signal(int signal)
{
    (void)signal;
    int before = errno;
    atomic_fetch_add(&signals_seen, 1);
    sem_post(&semaphore);
    errno = before;
}

static void *storm(void *number)
{
    for (long i = 0; i < count; i++) {
        int first = (i + (long)number) % 2;
        struct timespec soon = in_ms(2);
        CHECK(pthread_mutex_lock(&two[first]) == 0);
        // Another thread may hold the other one and want this one.
        int result = pthread_mutex_timedlock(&two[!first], &soon);
        CHECK(result == 0 || result == ETIMEDOUT);
        if (result == 0)
            pthread_mutex_unlock(&two[!first]);
        else
            atomic_fetch_add(&timeouts, 1);
        pthread_mutex_unlock(&two[first]);
        if (i % 8 == 0)
            pthread_kill(pthread_self(), SIGUSR1);
        while (sem_trywait(&semaphore) == 0) {
        }
        CHECK(pthread_rwlock_wrlock(&rwlock) == 0);
        pthread_rwlock_unlock(&rwlock);
        pthread_spin_lock(&spin);
        pthread_spin_unlock(&spin);
        if (i % 64 == (long)number) {
            // A child of fork has the lock that its only thread holds, and may take others.
            CHECK(pthread_mutex_lock(&mutex) == 0);
            pid_t child = fork();
            CHECK(child >= 0);
            if (child == 0) {
                pthread_mutex_t own = PTHREAD_MUTEX_INITIALIZER;
                for (int j = 0; j < 100; j++) {
                    pthread_mutex_lock(&own);
                    pthread_mutex_unlock(&own);
                }
                pthread_mutex_unlock(&mutex);
                _exit(7);
            }
            pthread_mutex_unlock(&mutex);
            int status;
            while (waitpid(child, &status, 0) < 0)
                CHECK(errno == EINTR);
            CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
            atomic_fetch_add(&children, 1);
        }
    }
    return NULL;
}

static void *die_with_lock(void *mutex)
{
    CHECK(pthread_mutex_lock(mutex) == 0);
    return NULL;
}

static void *wait_for_ever(void *unused)
{
    (void)unused;
    sem_t never;
    sem_init(&never, 0, 0);
    sem_wait(&never);
    return NULL;
}

static void unlock_again(void *mutex) { pthread_mutex_unlock(mutex); }

static void *wait_for_condition(void *unused)
{
    (void)unused;
    pthread_mutex_lock(&two[0]);
    pthread_cleanup_push(unlock_again, &two[0]);
    for (;;)
        pthread_cond_wait(&condition, &two[0]);
    pthread_cleanup_pop(1);
    return NULL;
}

// Is cancelled before it waits for a semaphore that is free.
static void *take_free_semaphore(void *free_one)
{
    CHECK(pthread_cancel(pthread_self()) == 0);
    sem_wait(free_one);
    return NULL;
}

static void odd(void)
{
    pthread_mutexattr_t attributes;
    pthread_mutex_t checked, recursive, robust;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
    pthread_mutex_init(&checked, &attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&recursive, &attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_NORMAL);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutexattr_setprotocol(&attributes, PTHREAD_PRIO_INHERIT);
    pthread_mutex_init(&robust, &attributes);
    CHECK(pthread_mutex_lock(&checked) == 0 && pthread_mutex_lock(&checked) == EDEADLK);
    CHECK(pthread_mutex_trylock(&checked) == EBUSY && pthread_mutex_unlock(&checked) == 0);
    CHECK(pthread_mutex_lock(&recursive) == 0 && pthread_mutex_lock(&recursive) == 0);
    CHECK(pthread_mutex_unlock(&recursive) == 0 && pthread_mutex_unlock(&recursive) == 0);
    CHECK(pthread_mutex_unlock(&recursive) == EPERM);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, die_with_lock, &robust) == 0 && pthread_join(thread, NULL) == 0);
    CHECK(pthread_mutex_lock(&robust) == EOWNERDEAD && pthread_mutex_consistent(&robust) == 0);
    CHECK(pthread_mutex_unlock(&robust) == 0 && pthread_mutex_lock(&robust) == 0 && pthread_mutex_unlock(&robust) == 0);
    CHECK(pthread_rwlock_wrlock(&rwlock) == 0 && pthread_rwlock_wrlock(&rwlock) == EDEADLK);
    CHECK(pthread_rwlock_unlock(&rwlock) == 0);
    // errno is as the functions leave it.
    sem_t empty;
    sem_init(&empty, 0, 0);
    struct timespec soon = in_ms(5);
    errno = 77;
    CHECK(sem_timedwait(&empty, &soon) == -1 && errno == ETIMEDOUT);
    errno = 77;
    CHECK(sem_trywait(&empty) == -1 && errno == EAGAIN);
    errno = 77;
    sem_post(&empty);
    CHECK(sem_wait(&empty) == 0 && errno == 77);
    // Free or not, the time must be one.
    sem_post(&empty);
    struct timespec never = {.tv_nsec = -1};
    CHECK(sem_timedwait(&empty, &never) == -1 && errno == EINVAL);
    CHECK(sem_clockwait(&empty, CLOCK_MONOTONIC, &never) == -1 && errno == EINVAL);
    CHECK(sem_clockwait(&empty, CLOCK_PROCESS_CPUTIME_ID, &soon) == -1 && errno == EINVAL);
    // And it is a point where a thread can be cancelled.
    void *result;
    CHECK(pthread_create(&thread, NULL, take_free_semaphore, &empty) == 0);
    CHECK(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
    CHECK(sem_timedwait(&empty, &soon) == 0);
    errno = 77;
    CHECK(pthread_mutex_lock(&mutex) == 0);
    soon = in_ms(5);
    CHECK(pthread_cond_timedwait(&condition, &mutex, &soon) == ETIMEDOUT && errno == 77);
    CHECK(pthread_mutex_unlock(&mutex) == 0);
    // A thread that waits can be cancelled.
    for (int i = 0; i < 2; i++) {
        CHECK(pthread_create(&thread, NULL, i ? wait_for_condition : wait_for_ever, NULL) == 0);
        sleep_ns(20000000);
        CHECK(pthread_cancel(thread) == 0 && pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
    }
    CHECK(pthread_mutex_lock(&two[0]) == 0 && pthread_mutex_unlock(&two[0]) == 0);
    CHECK(thrd_success == 0 && thrd_busy == 1);
    CHECK(mtx_lock(&c11) == thrd_success && mtx_trylock(&c11) == thrd_busy);
    soon = in_ms(5);
    CHECK(mtx_timedlock(&c11, &soon) == thrd_timedout && mtx_unlock(&c11) == thrd_success);
}

int main(int argc, char **argv)
{
    CHECK(argc >= 2);
    pthread_spin_init(&spin, PTHREAD_PROCESS_PRIVATE);
    pthread_barrier_init(&barrier, NULL, 2);
    sem_init(&semaphore, 0, 1);
    mtx_init(&c11, mtx_timed);
    if (strcmp(argv[1], "held") == 0) {
        kind = argv[2];
        hold_ms = atol(argv[4]);
        held(atol(argv[3]));
    } else if (strcmp(argv[1], "count") == 0) {
        count = atol(argv[3]);
        in_threads(atoi(argv[2]), count_locks);
    } else if (strcmp(argv[1], "pairs") == 0) {
        // A second thread: the C library takes no short cuts then.
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, measure, (void *)atol(argv[2])) == 0 && pthread_join(thread, NULL) == 0);
    } else if (strcmp(argv[1], "storm") == 0) {
        count = atol(argv[3]);
        struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
        sigaction(SIGUSR1, &action, NULL);
        in_threads(atoi(argv[2]), storm);
        printf("signals=%ld\ntimeouts=%ld\nchildren=%ld\n", signals_seen, timeouts, children);
    } else {
        odd();
    }
    return 0;
}
