/* Two contexts that the handler of a timer switches between, with SA_ONSTACK and no signal stack: each has frames of its own all the time. Prints
 * `done`. */
#include "work.h"
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
#include <ucontext.h>

static ucontext_t contexts[3];
static char stacks[2][1 << 16];
static volatile int current, wrong;
static volatile long work[2];

static void on_alarm(int signal) {
    (void)signal;
    volatile long pattern[64];
    int mine = current;
    for (int i = 0; i < 64; i++) pattern[i] = mine * 1000 + i;
    current = !mine;
    swapcontext(&contexts[mine], &contexts[!mine]);
    for (int i = 0; i < 64; i++) wrong += pattern[i] != mine * 1000 + i;
}

static void compute(int mine) {
    for (double end = clock_seconds(CLOCK_MONOTONIC) + 1; clock_seconds(CLOCK_MONOTONIC) < end;) {
        char local;
        char *here = &local;
        __asm__ volatile("" : "+r"(here));
        wrong += here < stacks[mine] || here > stacks[mine] + sizeof stacks[mine] || current != mine;
        work[mine]++;
    }
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
    setcontext(&contexts[2]);
}

int main(void) {
    struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART | SA_ONSTACK};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    for (int i = 0; i < 2; i++) {
        getcontext(&contexts[i]);
        contexts[i].uc_stack.ss_sp = stacks[i];
        contexts[i].uc_stack.ss_size = sizeof stacks[i];
        makecontext(&contexts[i], (void (*)(void))compute, 1, i);
    }
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 1000}, {0, 1000}}, NULL);
    swapcontext(&contexts[2], &contexts[0]);
    CHECK(work[0] > 0 && work[1] > 0 && wrong == 0);
    puts("done");
    return 0;
}
