/* Threads that take something from themselves by prctl: restricted tsc|dispatch|range prctl|syscall [exec|fatal].
 *
 * `tsc`: to read the time stamp counter is a fault (PR_SET_TSC). `dispatch`: system calls raise SIGSYS while a selector says so
 * (PR_SET_SYSCALL_USER_DISPATCH); `range`: all do but those of the C library. Each works before, under and after it, marks by roctx, and has
 * a thread and a child there. It counts what its handlers were called for. With `exec` it ends as another program, with `fatal` by a fault
 * of its own, while that holds. */
#include "work.h"
#include <link.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#ifndef PR_SET_SYSCALL_USER_DISPATCH
#define PR_SET_SYSCALL_USER_DISPATCH 59
#endif

__attribute__((weak)) void roctxMarkA(const char *);

static volatile char selector; /* 0 allows, 1 dispatches */
static volatile int caught;

static void mark(int count) {
    for (int i = 0; i < count && roctxMarkA; i++) roctxMarkA("a mark");
}

/* Some 100 ms, without a system call or a look at a clock. */
static __attribute__((noinline)) void compute(void) {
    uint64_t value = 88172645463325252ull;
    WORK(500000, value);
}

static int raw_getpid(void) {
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "0"(SYS_getpid) : "rcx", "r11", "memory");
    return (int)result;
}

static void on_sys(int signal, siginfo_t *info, void *context) {
    (void)signal;
    (void)info;
    selector = 0;
    caught++;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RAX] = 4711;
}

static void on_fault(int signal, siginfo_t *info, void *context) {
    (void)signal;
    (void)info;
    caught++;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP] += 2; /* rdtsc */
}

static int restrict_by(const char *how, long option, unsigned long a, unsigned long b, unsigned long c, volatile char *d) {
    if (strcmp(how, "prctl") == 0) return prctl((int)option, a, b, c, d);
    return (int)syscall(SYS_prctl, option, a, b, c, d);
}

static void *thread(void *unused) {
    (void)unused;
    mark(10);
    burn(0.1);
    return NULL;
}

static void live(void) {
    pthread_t id;
    CHECK(pthread_create(&id, NULL, thread, NULL) == 0);
    CHECK(pthread_join(id, NULL) == 0);
    sigset_t set, old;
    sigfillset(&set);
    CHECK(pthread_sigmask(SIG_SETMASK, &set, &old) == 0 && !sigismember(&old, 16));
    CHECK(pthread_sigmask(SIG_SETMASK, &old, &set) == 0 && sigismember(&set, SIGUSR1));
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        burn(0.05);
        mark(10);
        exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
}

static int find_libc(struct dl_phdr_info *info, size_t size, void *data) {
    (void)size;
    unsigned long *range = data;
    if (!strstr(info->dlpi_name, "/libc.so")) return 0;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X) {
            range[0] = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
            range[1] = info->dlpi_phdr[i].p_memsz;
        }
    return 1;
}

int main(int argc, char **argv) {
    CHECK(argc > 2);
    const char *mode = argv[1], *how = argv[2];
    const char *end = argc > 3 ? argv[3] : "";
    compute();
    if (strcmp(mode, "after-exec") == 0) {
        mark(10);
        printf("ok exec\n");
        return 0;
    }
    char *words[] = {argv[0], "after-exec", argv[2], NULL};
    if (strcmp(mode, "tsc") == 0) {
        struct sigaction action = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO};
        CHECK(sigaction(SIGSEGV, &action, NULL) == 0);
        CHECK(restrict_by(how, PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, NULL) == 0);
        mark(100);
        compute();
        __asm__ volatile("rdtsc" : : : "rax", "rdx");
        live();
        if (strcmp(end, "exec") == 0) execv("/proc/self/exe", words);
        if (strcmp(end, "fatal") == 0) __asm__ volatile("ud2");
        CHECK(restrict_by(how, PR_SET_TSC, PR_TSC_ENABLE, 0, 0, NULL) == 0);
        compute();
    } else {
        struct sigaction action = {.sa_sigaction = on_sys, .sa_flags = SA_SIGINFO};
        CHECK(sigaction(SIGSYS, &action, NULL) == 0);
        unsigned long range[2] = {0, 0};
        int by_range = strcmp(mode, "range") == 0;
        if (by_range) CHECK(dl_iterate_phdr(find_libc, range) == 1);
        CHECK(restrict_by(how, PR_SET_SYSCALL_USER_DISPATCH, 1, range[0], range[1], by_range ? NULL : &selector) == 0);
        for (int i = 0; i < 3; i++) {
            selector = 1;
            mark(100);
            compute();
            CHECK(raw_getpid() == 4711);
            selector = 0;
        }
        live();
        if (strcmp(end, "exec") == 0) execv("/proc/self/exe", words);
        selector = 1;
        if (strcmp(end, "fatal") == 0) *(volatile int *)8 = 0;
        selector = 0;
        CHECK(restrict_by(how, PR_SET_SYSCALL_USER_DISPATCH, 0, 0, 0, NULL) == 0);
        CHECK(raw_getpid() == getpid());
        compute();
        mark(10);
    }
    printf("ok %s caught=%d\n", mode, caught);
    return 0;
}
