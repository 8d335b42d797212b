/* Handlers that record, in the middle of what they interrupt: recording_handlers --how step|alarm --what range|lock --from N --stride N --children N
 *
 * Each child records a range for the first time and is interrupted once:
 * `step` after N instructions, by the trap flag, N growing by the stride from child to child until a child gets through; `alarm` by a timer,
 * after N microseconds, in as many children as said. Its handler records a range, with `lock` it waits for a lock that another
 * thread holds and that thread records, too. Prints how many hung, and how many instructions there were. */
#include "work.h"
#include "rsys.h"
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>

static const char *what;
static long stop_at;
static volatile long steps, handled, released;
static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;

static void record(const char *name) {
    rsys_range_push(name);
    rsys_range_pop();
}

static void *holder(void *started) {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    pthread_mutex_lock(&held);
    *(volatile int *)started = 1;
    while (!released) usleep(100);
    record("by the holder");
    pthread_mutex_unlock(&held);
    return NULL;
}

static void in_handler(void) {
    record("in the handler");
    if (what[0] == 'l') {
        released = 1;
        pthread_mutex_lock(&held);
        pthread_mutex_unlock(&held);
    }
    handled = 1;
}

static void on_alarm(int number) {
    (void)number;
    if (!handled) in_handler();
}

static void on_step(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    if (++steps != stop_at) return;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~0x100l;
    /* A lock is waited for in the handler of a signal that can be blocked: of the trap, others would wait for this thread. */
    if (what[0] == 'l') syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), SIGALRM);
    else in_handler();
}

/* Whether the child got to its end without being interrupted. */
static int child(int is_stepped) {
    volatile int started = 0;
    pthread_t thread;
    if (what[0] == 'l') {
        CHECK(pthread_create(&thread, NULL, holder, (void *)&started) == 0);
        while (!started) usleep(100);
    }
    struct sigaction on_signal = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
    CHECK(sigaction(SIGALRM, &on_signal, NULL) == 0);
    if (is_stepped) {
        struct sigaction action = {.sa_sigaction = on_step, .sa_flags = SA_SIGINFO | SA_RESTART};
        CHECK(sigaction(SIGTRAP, &action, NULL) == 0);
        __asm__ volatile("pushfq\n\torq $0x100, (%%rsp)\n\tpopfq" ::: "memory", "cc");
        record("first");
        __asm__ volatile("pushfq\n\tandq $~0x100, (%%rsp)\n\tpopfq" ::: "memory", "cc");
        return !handled;
    }
    struct itimerval timer = {.it_interval = {0, 0}, .it_value = {0, stop_at}};
    CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
    record("first");
    while (!handled) record("until it comes");
    return 0;
}

int main(int argc, char **argv) {
    int is_stepped = strcmp(word_option(argc, argv, "--how", "step"), "step") == 0;
    long stride = (long)option(argc, argv, "--stride", 1), children = (long)option(argc, argv, "--children", 1e9);
    what = word_option(argc, argv, "--what", "range");
    stop_at = (long)option(argc, argv, "--from", 1);
    long hung = 0, failed = 0;
    for (long number = 0; number < children; number++, stop_at += stride) {
        pid_t pid = fork();
        if (pid == 0) _exit(child(is_stepped) ? 7 : 0);
        struct pollfd end = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};
        CHECK(end.fd >= 0);
        if (poll(&end, 1, 20000) == 0) {
            fprintf(stderr, "hung, interrupted after %ld\n", stop_at);
            hung++;
            kill(pid, SIGKILL);
        }
        close(end.fd);
        int status;
        CHECK(waitpid(pid, &status, 0) == pid);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 7) break;
        failed += status != 0;
    }
    printf("hung=%ld\nfailed=%ld\ninterrupted=%ld\n", hung, failed, stop_at);
    return hung + failed > 0;
}
