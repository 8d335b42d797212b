/* A program that recovers from its own faults: by siglongjmp, and from a stack overflow on an alternative stack. */
#include "work.h"
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

static sigjmp_buf back;
static volatile int faults;

static void on_fault(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
    faults++;
    siglongjmp(back, 1);
}

static __attribute__((noinline)) int overflow(volatile char *above) {
    volatile char here[4096];
    here[0] = above ? above[0] : 1;
    return overflow(here) + here[0];
}

int main(void) {
    static char stack[1 << 16];
    stack_t alternative = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction action = {0}, seen;
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    CHECK(sigaltstack(&alternative, NULL) == 0 && sigaction(SIGSEGV, &action, NULL) == 0);
    CHECK(sigaction(SIGSEGV, NULL, &seen) == 0 && seen.sa_sigaction == on_fault);

    volatile char *hole = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(hole != MAP_FAILED);
    for (int i = 0; i < 1000; i++) {
        if (sigsetjmp(back, 1) == 0) {
            burn(0.0003);
            hole[0] = 1;
        }
        CHECK(faults == i + 1);
    }
    for (int i = 0; i < 10; i++)
        if (sigsetjmp(back, 1) == 0) overflow(NULL);
    CHECK(faults == 1010);
    printf("faults=%d\n", faults);
    return 0;
}
