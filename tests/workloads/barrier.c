/* A program that lives by its faults, as run-time systems with write barriers do: barrier [--seconds S].
 *
 * Every write to the page faults; the handler works and lets it pass. It sends itself the same signal, which must wait until it
 * has returned. Prints the CPU time of a fault, the work taken off. */
#include "work.h"
#include <signal.h>
#include <sys/mman.h>

static volatile char *page;
static volatile sig_atomic_t inside, faults, sent, received;

static __attribute__((noinline)) void let_pass(void) {
    uint64_t value = 7;
    WORK(100, value);
    CHECK(mprotect((void *)page, 4096, PROT_READ | PROT_WRITE) == 0);
}

static void on_fault(int number, siginfo_t *info, void *context) {
    (void)context;
    CHECK(!inside);
    sigset_t blocked;
    CHECK(pthread_sigmask(SIG_BLOCK, NULL, &blocked) == 0 && sigismember(&blocked, SIGSEGV));
    if (info->si_code <= 0) {
        received++;
        return;
    }
    inside = 1;
    if (faults++ % 16 == 0) {
        sent++;
        CHECK(pthread_kill(pthread_self(), number) == 0);
    }
    let_pass();
    CHECK(received == sent - (faults % 16 == 1));
    inside = 0;
}

static __attribute__((noinline)) void mutate(void) {
    CHECK(mprotect((void *)page, 4096, PROT_READ) == 0);
    page[0] = 1;
    uint64_t value = 7;
    WORK(20, value);
}

int main(int argc, char **argv) {
    double seconds = option(argc, argv, "--seconds", 1);
    struct sigaction action = {0};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO;
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
    page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    double start = thread_cpu();
    while (thread_cpu() < start + seconds)
        for (int i = 0; i < 100; i++) mutate();
    CHECK(received == sent && sent > 0);
    printf("faults=%d ns_per_fault=%.0f\n", (int)faults, 1e9 * (thread_cpu() - start) / faults);
    return 0;
}
