// roctx in every way that programs use it.
//
// ranges HOW WHAT: HOW is how the functions are had: `linked` (weakly, so that it runs without a library), `default` (asked of the
// whole program), the path of a library to open, or `version:` and such a path (asked by version, too). WHAT is what is done with them:
//   checks        everything once, with the numbers that come back
//   many N        N ranges in each of four threads, of few and of ever new names
//   open          ranges that do not end before the program is killed
//   paused        work before, in and after a pause
//   fork          a range that is open at a fork
#include "work.h"

#include <dlfcn.h>
#include <sys/wait.h>

#define WEAK __attribute__((weak))
WEAK void roctxMarkA(const char *);
WEAK int roctxRangePushA(const char *);
WEAK int roctxRangePop(void);
WEAK uint64_t roctxRangeStartA(const char *);
WEAK void roctxRangeStop(uint64_t);
// Only the newer library has these.
WEAK int roctxProfilerPause(uint64_t);
WEAK int roctxProfilerResume(uint64_t);
WEAK int roctxGetThreadId(uint64_t *);
WEAK int roctxNameOsThread(const char *);

static void (*mark)(const char *);
static int (*push)(const char *);
static int (*pop)(void);
static uint64_t (*start)(const char *);
static void (*stop)(uint64_t);

static void get_version(const char *path)
{
    const char *version = "ROCTX_4.1";
    void *library = dlopen(path, RTLD_LAZY | RTLD_LOCAL);
    CHECK(library && !dlvsym(library, "roctxMarkA", "ROCTX_0.0") && !dlvsym(library, "roctxNothing", version));
    mark = (void (*)(const char *))dlvsym(library, "roctxMarkA", version);
    push = (int (*)(const char *))dlvsym(library, "roctxRangePushA", version);
    pop = (int (*)(void))dlvsym(library, "roctxRangePop", version);
    start = (uint64_t(*)(const char *))dlvsym(library, "roctxRangeStartA", version);
    stop = (void (*)(uint64_t))dlvsym(library, "roctxRangeStop", version);
    // Who asks for what comes next is known by the address of the call.
    CHECK(dlvsym(RTLD_NEXT, "clock_gettime", "GLIBC_2.17") == dlsym(RTLD_NEXT, "clock_gettime"));
}

static void get(const char *how)
{
    if (strncmp(how, "version:", 8) == 0) {
        get_version(how + 8);
    } else if (strcmp(how, "linked") == 0) {
        mark = roctxMarkA, push = roctxRangePushA, pop = roctxRangePop, start = roctxRangeStartA, stop = roctxRangeStop;
    } else {
        void *library = strcmp(how, "default") == 0 ? RTLD_DEFAULT : dlopen(how, RTLD_LAZY | RTLD_LOCAL);
        mark = (void (*)(const char *))dlsym(library, "roctxMarkA");
        push = (int (*)(const char *))dlsym(library, "roctxRangePushA");
        pop = (int (*)(void))dlsym(library, "roctxRangePop");
        start = (uint64_t(*)(const char *))dlsym(library, "roctxRangeStartA");
        stop = (void (*)(uint64_t))dlsym(library, "roctxRangeStop");
    }
    CHECK(mark && push && pop && start && stop);
}

static void *stop_it(void *id)
{
    stop((uint64_t)id);
    push("in another thread");
    pop();
    if (roctxNameOsThread)
        CHECK(roctxNameOsThread("the stopper") == 0);
    return NULL;
}

static void checks(void)
{
    char name[64];
    CHECK(pop() == -1);
    CHECK(push("outer") == 0);
    CHECK(push("inner") == 1);
    mark("a mark");
    CHECK(pop() == 1);
    CHECK(pop() == 0);
    CHECK(pop() == -1);
    CHECK(pop() == -1);
    for (int level = 0; level < 1000; level++) {
        snprintf(name, sizeof name, "level %d", level);
        CHECK(push(name) == level);
    }
    for (int level = 999; level >= 0; level--)
        CHECK(pop() == level);
    uint64_t first = start("from thread to thread"), second = start("overlapping");
    CHECK(first != second);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, stop_it, (void *)first) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    stop(second);
    // What is no name is none, and what is long is cut.
    char *longest = malloc(100001);
    memset(longest, 'x', 100000);
    longest[100000] = 0;
    push(longest);
    CHECK(pop() == 0);
    push("");
    CHECK(pop() == 0);
    uint64_t id = 0;
    if (roctxGetThreadId) {
        CHECK(roctxGetThreadId(&id) == 0);
        CHECK(id == (uint64_t)gettid());
    }
}

static long many;

static void *ranges(void *number)
{
    char name[64];
    for (long i = 0; i < many; i++) {
        if (i % 4 == 0)
            snprintf(name, sizeof name, "new %ld of %ld", i, (long)number);
        else
            snprintf(name, sizeof name, "often %ld", i % 4);
        push(name);
        pop();
    }
    return NULL;
}

static __attribute__((noinline)) void seen_work(void)
{
    burn(0.5);
    __asm__ volatile("");
}

static __attribute__((noinline)) void unseen_work(void)
{
    burn(0.5);
    __asm__ volatile("");
}

int main(int argc, char **argv)
{
    CHECK(argc >= 3);
    get(argv[1]);
    const char *what = argv[2];
    if (strcmp(what, "checks") == 0) {
        checks();
    } else if (strcmp(what, "many") == 0) {
        pthread_t threads[4];
        many = atol(argv[3]);
        for (long i = 0; i < 4; i++)
            CHECK(pthread_create(&threads[i], NULL, ranges, (void *)i) == 0);
        for (int i = 0; i < 4; i++)
            CHECK(pthread_join(threads[i], NULL) == 0);
    } else if (strcmp(what, "open") == 0) {
        push("ended");
        pop();
        push("left open");
        start("never stopped");
        printf("ready\n");
        fflush(stdout);
        for (;;)
            pause();
    } else if (strcmp(what, "paused") == 0) {
        push("around");
        push("before");
        seen_work();
        pop();
        push("ends in the pause");
        CHECK(roctxProfilerPause(0) == 0);
        CHECK(roctxProfilerPause(0) == 0);
        pop();
        mark("unseen mark");
        push("unseen, ends after the pause");
        unseen_work();
        CHECK(roctxProfilerResume(0) == 0);
        push("seen");
        pop();
        pop();
        pop();
        CHECK(roctxProfilerResume(0) == 0);
    } else if (strcmp(what, "fork") == 0) {
        push("of the parent");
        push("told twice");
        pop();
        push("told twice");
        pop();
        pid_t child = fork();
        if (child == 0) {
            push("told twice");
            pop();
            pop();
            push("of the child");
            pop();
            return 0;
        }
        int status = 1;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
        pop();
    } else {
        return 2;
    }
    printf("done\n");
    return 0;
}
