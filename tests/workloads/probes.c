/* Asks the kernel by system calls whether addresses can be read, as Abseil and gperftools do: in the open, in a handler that has blocked all signals,
 * and in handlers of SIGSEGV and SIGBUS, which return by a jump. Prints `ok`. */
#include "work.h"
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/syscall.h>
#include <time.h>

/* Cannot be read, nor is it null. */
static void *volatile nowhere = (void *)64;
static sigjmp_buf back;

static int refuses(int how, void *set) {
    errno = 0;
    return syscall(SYS_rt_sigprocmask, how, set, NULL, 8) == -1 ? errno : 0;
}

static void ask(void) {
    uint64_t old = ~0ull, none = 0;
    struct timespec at_once = {0, 0};
    struct pollfd nothing;
    CHECK(syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &old, 8) == 0 && old != ~0ull);
    CHECK(refuses(~0, nowhere) == EFAULT && refuses(~0, &none) == EINVAL && refuses(SIG_BLOCK, &none) == 0);
    CHECK(refuses(SIG_BLOCK, nowhere) == EFAULT && refuses(SIG_SETMASK, nowhere) == EFAULT);
    CHECK(syscall(SYS_rt_sigsuspend, nowhere, 8) == -1 && errno == EFAULT);
    CHECK(syscall(SYS_ppoll, &nothing, 0, &at_once, nowhere, 8) == -1 && errno == EFAULT);
    CHECK(syscall(SYS_pselect6, 0, NULL, NULL, NULL, &at_once, nowhere) == -1 && errno == EFAULT);
}

static void on_signal(int number) {
    (void)number;
    ask();
}

static void on_fault(int number) {
    ask();
    siglongjmp(back, number);
}

int main(void) {
    struct sigaction full = {.sa_handler = on_signal}, fault = {.sa_handler = on_fault};
    sigfillset(&full.sa_mask);
    CHECK(sigaction(SIGUSR1, &full, NULL) == 0);
    CHECK(sigaction(SIGSEGV, &fault, NULL) == 0 && sigaction(SIGBUS, &fault, NULL) == 0);
    for (int i = 0; i < 3; i++) {
        ask();
        CHECK(raise(SIGUSR1) == 0);
        if (sigsetjmp(back, 1) == 0) *(volatile int *)nowhere = i;
        if (sigsetjmp(back, 1) == 0) raise(SIGBUS);
        burn(0.02);
    }
    puts("ok");
    return 0;
}
