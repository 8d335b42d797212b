/* Work in the program's own signal handlers: handlers [--seconds S] [--turns N].
 *
 * A CPU-time timer interrupts `interrupted_work`; its handler works on the stack it interrupted or, every other time, on an
 * alternate one, and raises another signal whose handler works inside of it. */
#include "work.h"
#include <signal.h>

static volatile uint64_t sink = 1;

static __attribute__((noinline)) void work_in_handler(void) {
    uint64_t value = sink | 1;
    WORK(3000, value);
    sink = value;
}

static void on_inner(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
    work_in_handler();
    __asm__ volatile("" ::: "memory");
}

static void on_outer(int number, siginfo_t *info, void *context) {
    (void)number, (void)info, (void)context;
    work_in_handler();
    raise(SIGUSR2);
    work_in_handler();
    __asm__ volatile("" ::: "memory");
}

static void install(int number, void (*handler)(int, siginfo_t *, void *), int flags) {
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART | flags};
    CHECK(sigaction(number, &action, NULL) == 0);
}

static __attribute__((noinline)) void interrupted_work(double seconds) {
    double end = thread_cpu() + seconds;
    uint64_t value = 3;
    for (long turn = 0; thread_cpu() < end; turn++) {
        /* Both stacks, alternately. */
        int flags = turn % 2 ? SA_ONSTACK : 0;
        install(SIGUSR1, on_outer, flags);
        WORK(2000, value);
        raise(SIGUSR1);
    }
    sink = value;
}

int main(int argc, char **argv) {
    static char stack[256 * 1024];
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    CHECK(sigaltstack(&alternate, NULL) == 0);
    install(SIGUSR2, on_inner, 0);
    install(SIGPROF, on_outer, SA_ONSTACK);
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGPROF};
    CHECK(timer_create(CLOCK_PROCESS_CPUTIME_ID, &event, &timer) == 0);
    struct itimerspec often = {.it_interval = {.tv_nsec = 10000000}, .it_value = {.tv_nsec = 10000000}};
    CHECK(timer_settime(timer, 0, &often, NULL) == 0);
    interrupted_work(option(argc, argv, "--seconds", 0.5));
    /* No handler in `exit`, which is not below main. */
    CHECK(timer_delete(timer) == 0);
    printf("cpu=%.6f\n", process_cpu());
    return 0;
}
