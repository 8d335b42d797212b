/* Threads that stay where they are, for whoever looks at their stacks: dumped [KIND[=NUMBER]...]
 *
 * `naps` waits in pause; `spins` computes; `pool=N` are N threads that wait for work; `mutex` are two threads, of which one holds a mutex and the other
 * one wants it; `joins` waits for the end of a thread; `bytes` is a thread that computes, whose name is no UTF-8, as that of the process is then; with `leaves`, the first thread ends and the others go on. Each has the name of its kind. Prints `NAME_line=N` for the lines in which they wait, and
 * `ready PID` when all are there. Ends by SIGTERM, with `spun=N`. */
#include "work.h"
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static atomic_int begun;
static atomic_ulong spun;
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, queue = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work = PTHREAD_COND_INITIALIZER;
static volatile int never;
enum { NAPS_LINE = __LINE__ + 3 };
__attribute__((noinline)) static void naps_here(void) {
    begun++;
    while (!never) pause();
}

__attribute__((noinline)) static void spins_here(void) {
    begun++;
    while (!never) spun++;
}

__attribute__((noinline)) static void idles_here(void) {
    CHECK(pthread_mutex_lock(&queue) == 0);
    begun++;
    while (!never) pthread_cond_wait(&work, &queue);
}

__attribute__((noinline)) static void holds_here(void) {
    CHECK(pthread_mutex_lock(&mutex) == 0);
    naps_here();
}
enum { WANTS_LINE = __LINE__ + 3 };
__attribute__((noinline)) static void wants_here(void) {
    begun++;
    pthread_mutex_lock(&mutex);
    never = 1;
}

/* A thread, as the one that begins it knows it. */
struct begun {
    const char *name;
    atomic_int tid;
};

static void come(struct begun *me) {
    prctl(PR_SET_NAME, me->name);
    me->tid = gettid();
}

static void *naps(void *me) {
    come(me);
    naps_here();
    return me;
}

static void *spins(void *me) {
    come(me);
    spins_here();
    return me;
}

static void *idles(void *me) {
    come(me);
    idles_here();
    return me;
}

static void *holds(void *me) {
    come(me);
    holds_here();
    return me;
}

static void *wants(void *me) {
    come(me);
    wants_here();
    return me;
}

/* Whether a thread is in the call in which it stays: pause or futex. */
static int stays(int tid) {
    char path[64], line[64] = "";
    snprintf(path, sizeof path, "/proc/self/task/%d/syscall", tid);
    FILE *file = fopen(path, "r");
    CHECK(file);
    int is_read = fgets(line, sizeof line, file) != NULL;
    fclose(file);
    int number = is_read && line[0] != 'r' ? atoi(line) : -1;
    return number == SYS_pause || number == SYS_futex;
}

/* Returns when the thread is where it stays. */
static pthread_t begin(void *(*routine)(void *), const char *name) {
    pthread_t thread;
    pthread_attr_t small;
    struct begun *its = calloc(1, sizeof *its);
    CHECK(its && pthread_attr_init(&small) == 0 && pthread_attr_setstacksize(&small, 64 << 10) == 0);
    its->name = name;
    int before = begun;
    CHECK(pthread_create(&thread, &small, routine, its) == 0);
    while (begun == before || !its->tid || !(routine == spins || stays(its->tid))) usleep(100);
    return thread;
}

static void *joins(void *me) {
    come(me);
    pthread_t other = begin(naps, "awaited");
    pthread_join(other, NULL);
    return me;
}

/* Until SIGTERM. */
static void *ends(void *set) {
    int signal = 0;
    CHECK(sigwait(set, &signal) == 0);
    printf("spun=%lu\nnever=%d\n", (unsigned long)spun, never);
    fflush(stdout);
    _exit(0);
}

int main(int count, char **words) {
    static sigset_t end;
    int leaves = 0;
    sigemptyset(&end);
    sigaddset(&end, SIGTERM);
    CHECK(pthread_sigmask(SIG_BLOCK, &end, NULL) == 0);
    for (int i = 1; i < count; i++) {
        if (strcmp(words[i], "naps") == 0) begin(naps, "naps");
        else if (strcmp(words[i], "spins") == 0) begin(spins, "spins");
        else if (strncmp(words[i], "pool=", 5) == 0)
            for (int left = atoi(words[i] + 5); left > 0; left--) begin(idles, "pool");
        else if (strcmp(words[i], "mutex") == 0) {
            begin(holds, "holds");
            begin(wants, "wants");
        } else if (strcmp(words[i], "joins") == 0) begin(joins, "joins");
        else if (strcmp(words[i], "bytes") == 0) {
            prctl(PR_SET_NAME, "main\xc3");
            begin(spins, "cut\xe2\x82");
        }
        else if (strcmp(words[i], "leaves") == 0) leaves = 1;
    }
    printf("naps_line=%d\nwants_line=%d\nready %d\n", NAPS_LINE, WANTS_LINE, getpid());
    fflush(stdout);
    if (!leaves) ends(&end);
    pthread_t last;
    CHECK(pthread_create(&last, NULL, ends, &end) == 0);
    pthread_exit(NULL);
}
