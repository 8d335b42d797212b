/* A program with uses of its own for SIGTRAP: traps MODE. Prints `ok MODE` where it survives. */
#include "work.h"
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

static volatile sig_atomic_t handled;

static void count(int number, siginfo_t *info, void *context) {
    (void)context;
    /* What is not a breakpoint's or a sent one is none of this program's business. */
    CHECK(number == SIGTRAP && (info->si_code == SI_KERNEL || info->si_code == SI_TKILL || info->si_code == SI_USER));
    handled = handled + 1;
}

static void handle(void) {
    struct sigaction action = {0}, asked = {0};
    action.sa_sigaction = count;
    action.sa_flags = SA_SIGINFO;
    CHECK(sigaction(SIGTRAP, &action, NULL) == 0);
    CHECK(sigaction(SIGTRAP, NULL, &asked) == 0 && asked.sa_sigaction == count);
}

static void all_signals(int how) {
    sigset_t all;
    sigfillset(&all);
    CHECK(sigprocmask(how, &all, NULL) == 0);
}

#if defined(__x86_64__)
/* Faults while SIGTRAP is asked to be blocked: the fault must be found where it is. */
static volatile char *forbidden;
static volatile long faults;
extern char fault_here[], fault_over[];

static __attribute__((noinline)) void fault(void) {
    __asm__ volatile(".globl fault_here, fault_over\nfault_here: movb (%0), %%al\nfault_over:" : : "r"(forbidden) : "al", "memory");
}

static void skip(int number, siginfo_t *info, void *context) {
    greg_t *pc = &((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
    CHECK(number == SIGSEGV && info->si_addr == forbidden && *pc == (greg_t)(uintptr_t)fault_here);
    *pc = (greg_t)(uintptr_t)fault_over;
    faults = faults + 1;
}

static void fault_after_work(int number) {
    (void)number;
    burn(0.003);
    fault();
}

static void fault_in_handlers(void) {
    struct sigaction work = {0}, segv = {0}, asked = {0};
    work.sa_handler = fault_after_work;
    sigaddset(&work.sa_mask, SIGTRAP);
    segv.sa_sigaction = skip;
    segv.sa_flags = SA_SIGINFO;
    forbidden = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(forbidden != MAP_FAILED);
    CHECK(sigaction(SIGUSR1, &work, NULL) == 0 && sigaction(SIGSEGV, &segv, NULL) == 0);
    CHECK(sigaction(SIGUSR1, NULL, &asked) == 0 && sigismember(&asked.sa_mask, SIGTRAP) == 1);
    for (int i = 0; i < 50; i++) CHECK(raise(SIGUSR1) == 0 && faults == i + 1);
    sigemptyset(&work.sa_mask);
    CHECK(sigaction(SIGUSR1, &work, &asked) == 0 && sigismember(&asked.sa_mask, SIGTRAP) == 1);
    CHECK(sigaction(SIGUSR1, NULL, &asked) == 0 && sigismember(&asked.sa_mask, SIGTRAP) == 0);
}
#endif

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    int left = argc > 2 ? atoi(argv[2]) : 0;
    if (strcmp(mode, "handled") == 0) {
        handle();
        for (int i = 0; i < 200; i++) {
            __asm__ volatile("int3");
            burn(0.002);
        }
        CHECK(raise(SIGTRAP) == 0 && handled == 201);
    } else if (strcmp(mode, "fatal") == 0) {
        burn(0.05);
        __asm__ volatile("int3");
    } else if (strcmp(mode, "raised") == 0) {
        burn(0.05);
        raise(SIGTRAP);
    } else if (strcmp(mode, "ignored") == 0) {
        CHECK(signal(SIGTRAP, SIG_IGN) == SIG_DFL);
        for (int i = 0; i < 50; i++) {
            CHECK(kill(getpid(), SIGTRAP) == 0);
            burn(0.002);
        }
    } else if (strcmp(mode, "ignored-fatal") == 0) {
        signal(SIGTRAP, SIG_IGN);
        burn(0.05);
        __asm__ volatile("int3");
#if defined(__x86_64__)
    } else if (strcmp(mode, "masked") == 0) {
        fault_in_handlers();
#endif
    } else if (strcmp(mode, "exec") == 0) {
        /* Whatever is pending here would meet the default action in the next program. */
        all_signals(SIG_UNBLOCK);
        burn(0.02);
        all_signals(SIG_BLOCK);
        burn(0.02);
        if (left > 0) {
            char number[16];
            snprintf(number, sizeof number, "%d", left - 1);
            execl("/proc/self/exe", argv[0], mode, number, NULL);
        }
        CHECK(left == 0);
    } else {
        CHECK(!"a known mode");
    }
    printf("ok %s\n", mode);
    return 0;
}
