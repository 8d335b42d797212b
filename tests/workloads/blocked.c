/* Blocks all signals in one of many ways, works, and lets them through by the mask of a wait, or by executing another program.
 *
 * blocked waits HOW           prints `interrupted=`: waits that ended early or by EINTR, though nobody sends a signal
 * blocked exec BY HOW PROGRAM executes the program with the one argument `look`; BY is call, raw or spawn
 * blocked look                says which signals are pending, lets all through, and exits with code 4 */
#include "work.h"
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>

#define WAIT_MS 6
/* All but SIGKILL and SIGSTOP, and without the one that the C library keeps for itself. */
#define ALL (int)(0x7fffffff & ~(1u << (SIGKILL - 1) | 1u << (SIGSTOP - 1)))

extern char **environ;
static char **words;
static void (*then)(void);
static int interrupted, epoll_fd;
static sigset_t none;
static ucontext_t back, other;
static sigjmp_buf saved;

static void judge(const char *call, double start, long result) {
    int early = clock_seconds(CLOCK_MONOTONIC) - start < 0.9e-3 * WAIT_MS;
    if (result >= 0 && !early) return;
    interrupted++;
    printf("%s: %s%s\n", call, result < 0 ? strerror(errno) : "", early ? " early" : "");
}

#define WAIT(call)                                      \
    do {                                                \
        burn(0.012);                                    \
        double start = clock_seconds(CLOCK_MONOTONIC);  \
        judge(#call, start, call);                      \
    } while (0)

static void waits(void) {
    struct epoll_event event;
    struct timespec time = {0, WAIT_MS * 1000000L};
    unsigned long empty = 0;
    struct { const void *set; size_t bytes; } mask = {&empty, 8};
    for (int round = 0; round < 3; round++) {
        WAIT(pselect(0, NULL, NULL, NULL, &time, &none));
        WAIT(ppoll(NULL, 0, &time, &none));
        WAIT(epoll_pwait(epoll_fd, &event, 1, WAIT_MS, &none));
        time = (struct timespec){0, WAIT_MS * 1000000L};
        WAIT(syscall(SYS_pselect6, 0, NULL, NULL, NULL, &time, &mask));
        time = (struct timespec){0, WAIT_MS * 1000000L};
        WAIT(syscall(SYS_ppoll, NULL, 0, &time, &empty, 8));
        time = (struct timespec){0, WAIT_MS * 1000000L};
    }
}

static void becomes(void) {
    char *arguments[] = {words[4], "look", NULL};
    burn(0.05);
    if (strcmp(words[2], "raw") == 0) syscall(SYS_execve, words[4], arguments, environ);
    if (strcmp(words[2], "spawn") == 0) {
        pid_t pid;
        int status = 0;
        CHECK(posix_spawn(&pid, words[4], NULL, NULL, arguments, environ) == 0);
        waitpid(pid, &status, 0);
        _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    }
    /* One that fails leaves everything as it was. */
    execl("/nonexistent", "nonexistent", (char *)NULL);
    burn(0.02);
    execl(words[4], words[4], "look", (char *)NULL);
    _exit(98);
}

static void look(void) {
    sigset_t set, all;
    sigpending(&set);
    for (int i = 1; i < 65; i++)
        if (sigismember(&set, i) == 1) printf("pending %d\n", i);
    sigfillset(&all);
    sigprocmask(SIG_UNBLOCK, &all, NULL);
    puts("alive");
    exit(4);
}

static void in_handler(int signal) {
    (void)signal;
    then();
}

static void jumps(int signal) {
    (void)signal;
    if (sigsetjmp(saved, 1) == 0) siglongjmp(saved, 1);
    then();
}

static void handler(void (*function)(int)) {
    struct sigaction action = {.sa_handler = function};
    sigfillset(&action.sa_mask);
    sigaction(SIGHUP, &action, NULL);
    burn(0.01);
    raise(SIGHUP);
}

static void context(void (*go)(void)) {
    static char stack[1 << 18];
    getcontext(&other);
    other.uc_stack.ss_sp = stack;
    other.uc_stack.ss_size = sizeof stack;
    other.uc_link = &back;
    sigfillset(&other.uc_sigmask);
    makecontext(&other, then, 0);
    go();
}

static void swap(void) { CHECK(swapcontext(&back, &other) == 0); }
static void go_on(void) {
    volatile int gone = 0;
    CHECK(getcontext(&back) == 0);
    if (gone++ == 0) setcontext(&other);
}

static void with(const char *how) {
    sigset_t all;
    unsigned long every = ~0ul, before;
    sigfillset(&all);
    if (strcmp(how, "sigprocmask") == 0) sigprocmask(SIG_SETMASK, &all, NULL);
    else if (strcmp(how, "sigblock") == 0) CHECK(sigblock(~0) == 0 && sigblock(0) == ALL);
    else if (strcmp(how, "sigsetmask") == 0) CHECK(sigsetmask(~0) == 0 && siggetmask() == ALL);
    else if (strcmp(how, "sighold") == 0) for (int i = 1; i < 32; i++) sighold(i);
    else if (strcmp(how, "sigset") == 0) {
        for (int i = 1; i < 32; i++) sigset(i, SIG_HOLD);
        CHECK(sigset(SIGTRAP, SIG_HOLD) == SIG_HOLD && sigset(SIGSTKFLT, SIG_DFL) == SIG_HOLD);
    } else if (strcmp(how, "raw") == 0) {
        CHECK(syscall(SYS_rt_sigprocmask, SIG_SETMASK, &every, NULL, 8) == 0);
        CHECK(syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &before, 8) == 0 && before == ~(1ul << 8 | 1ul << 18));
        CHECK(syscall(SYS_rt_sigprocmask, SIG_BLOCK, 8, NULL, 8) < 0 && errno == EFAULT);
    } else if (strcmp(how, "handler") == 0) return handler(in_handler);
    else if (strcmp(how, "siglongjmp") == 0) return handler(jumps);
    else if (strcmp(how, "swapcontext") == 0) return context(swap);
    else if (strcmp(how, "setcontext") == 0) return context(go_on);
    else CHECK(!"a known way");
    then();
}

int main(int argc, char **argv) {
    words = argv;
    sigemptyset(&none);
    CHECK(argc >= 2 && (epoll_fd = epoll_create1(EPOLL_CLOEXEC)) >= 0);
    if (strcmp(argv[1], "look") == 0) look();
    then = strcmp(argv[1], "exec") == 0 ? becomes : waits;
    with(argv[then == waits ? 2 : 3]);
    printf("interrupted=%d\n", interrupted);
    return 0;
}
