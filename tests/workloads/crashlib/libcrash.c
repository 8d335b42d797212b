/* Installs crash handlers when it is loaded, before anything that is preloaded has its turn. With CRASH_ONSTACK in the
 * environment they run on a stack of their own. */
#include "work.h"
#include <setjmp.h>
#include <signal.h>

sigjmp_buf crash_recovery;
/* Faults that the handler got, and those among them that came on another stack than its own. */
volatile long crash_faults, crash_off_stack;

static char stack[64 * 1024];
static int on_stack;

static void on_fault(int number, siginfo_t *info, void *context) {
    (void)context;
    char here;
    CHECK(number == SIGSEGV || number == SIGBUS);
    CHECK(info->si_code > 0);
    crash_faults++;
    crash_off_stack += on_stack && !(&here >= stack && &here < stack + sizeof stack);
    siglongjmp(crash_recovery, 1);
}

static __attribute__((constructor)) void install(void) {
    struct sigaction action = {0};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO;
    sigemptyset(&action.sa_mask);
    if (getenv("CRASH_ONSTACK")) {
        stack_t mine = {.ss_sp = stack, .ss_size = sizeof stack};
        on_stack = 1;
        action.sa_flags |= SA_ONSTACK;
        CHECK(sigaltstack(&mine, NULL) == 0);
    }
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
    CHECK(sigaction(SIGBUS, &action, NULL) == 0);
}
