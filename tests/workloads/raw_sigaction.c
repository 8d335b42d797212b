/* Handlers installed with syscall(SYS_rt_sigaction), not with the C library's function: raw_sigaction. Prints `ok`, or with
 * the argument `bypass` takes the sample signal away by the bare instruction, and prints `ok bypass`. */
#include "work.h"
#include <setjmp.h>
#include <signal.h>
#include <sys/syscall.h>

#define SA_RESTORER 0x04000000
#define FAULTS 100

struct kernel_action {
    void (*handler)(int, siginfo_t *, void *);
    unsigned long flags;
    void (*restorer)(void);
    uint64_t mask;
};

static sigjmp_buf recovery;
static volatile long faults, taken;

__attribute__((naked)) static void restorer(void) { __asm__("mov $15, %eax\n\tsyscall"); }

static void on_fault(int number, siginfo_t *info, void *context) {
    (void)number, (void)context;
    CHECK(info->si_code > 0);
    faults++;
    siglongjmp(recovery, 1);
}

static void on_sample_signal(int number, siginfo_t *info, void *context) {
    (void)number, (void)context;
    CHECK(info->si_code == SI_TKILL);
    taken++;
}

static void install(int number, void (*handler)(int, siginfo_t *, void *)) {
    struct kernel_action action = {handler, SA_SIGINFO | SA_RESTORER, restorer, 0}, before;
    struct sigaction told;
    CHECK(syscall(SYS_rt_sigaction, number, &action, &before, 8) == 0);
    CHECK(before.handler == NULL);
    /* Both ways tell the same. */
    CHECK(sigaction(number, NULL, &told) == 0 && told.sa_sigaction == handler);
    CHECK(syscall(SYS_rt_sigaction, number, NULL, &before, 8) == 0 && before.handler == handler);
}

static long bare_sigaction(int number, struct kernel_action *action) {
    long result;
    register long size __asm__("r10") = 8;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"((long)SYS_rt_sigaction), "D"((long)number), "S"(action), "d"(0l), "r"(size)
                     : "rcx", "r11", "memory");
    return result;
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "bypass") == 0) {
        struct kernel_action ignore = {(void *)SIG_IGN, SA_RESTORER, restorer, 0};
        CHECK(bare_sigaction(SIGSTKFLT, &ignore) == 0);
        burn(1);
        printf("ok bypass\n");
        return 0;
    }
    install(SIGSEGV, on_fault);
    install(SIGBUS, on_fault);
    install(SIGSTKFLT, on_sample_signal);
    if (sigsetjmp(recovery, 1) != 0) CHECK(faults <= FAULTS);
    if (faults < FAULTS) {
        burn(0.003);
        volatile char *volatile nowhere = (volatile char *)16;
        *nowhere = 0;
    }
    CHECK(faults == FAULTS);
    CHECK(syscall(SYS_tgkill, getpid(), (pid_t)syscall(SYS_gettid), SIGSTKFLT) == 0);
    burn(0.1);
    CHECK(taken == 1);
    printf("ok\n");
    return 0;
}
