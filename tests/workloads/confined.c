/* A program that locks itself in while its threads come and go: confined prctl|seccomp [no-sigreturn]. Every system call that
 * the program does not make itself kills it. `no-sigreturn` also forbids to return from signal handlers: it has none. */
#include "work.h"
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#define THREADS 8

/* What the C library needs for these threads, and what `main` does. */
static const unsigned used[] = {
    SYS_read, SYS_write, SYS_exit, SYS_exit_group, SYS_futex, SYS_clock_gettime, SYS_rt_sigprocmask, SYS_rt_sigaction,
    SYS_prctl, SYS_seccomp, SYS_mmap, SYS_mprotect, SYS_munmap, SYS_madvise, SYS_clone, SYS_clone3, SYS_set_robust_list, SYS_rseq, SYS_brk,
    SYS_rt_sigreturn, /* last: left out on demand */
};

static int locked;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t started;

static void *over_the_lock(void *unused) {
    (void)unused;
    pthread_barrier_wait(&started);
    pthread_mutex_lock(&lock);
    while (!locked) pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    burn(0.05);
    return NULL;
}

static void *inside(void *unused) {
    (void)unused;
    burn(0.01);
    return NULL;
}

static void lock_in(int by_prctl, size_t count) {
    struct sock_filter code[sizeof used / sizeof *used + 3];
    code[0] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (size_t i = 0; i < count; i++)
        code[i + 1] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, used[i], (unsigned char)(count - i), 0);
    code[count + 1] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
    code[count + 2] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {(unsigned short)(count + 3), code};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    if (by_prctl) CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    else CHECK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0);
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    int no_sigreturn = argc > 2 && strcmp(argv[2], "no-sigreturn") == 0;
    pthread_t before[THREADS], after;
    CHECK(pthread_barrier_init(&started, NULL, THREADS + 1) == 0);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&before[i], NULL, over_the_lock, NULL) == 0);
    burn(0.2);
    pthread_barrier_wait(&started);
    /* Twice: what the first filter forbids must not be done for the sake of the second. */
    for (int i = 0; i < 2; i++) lock_in(strcmp(mode, "prctl") == 0, sizeof used / sizeof *used - (no_sigreturn ? 1 : 0));
    pthread_mutex_lock(&lock);
    locked = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    /* A program may look after its handlers and masks in there. */
    struct sigaction action = {.sa_handler = SIG_DFL};
    sigset_t all;
    sigfillset(&all);
    CHECK(sigaction(SIGSEGV, &action, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0);
    CHECK(pthread_sigmask(SIG_BLOCK, &all, NULL) == 0 && pthread_sigmask(SIG_UNBLOCK, &all, NULL) == 0);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(before[i], NULL) == 0);
    for (int i = 0; i < THREADS; i++) {
        CHECK(pthread_create(&after, NULL, inside, NULL) == 0);
        CHECK(pthread_join(after, NULL) == 0);
    }
    burn(0.1);
    char line[64];
    int length = snprintf(line, sizeof line, "ok %s\n", mode);
    CHECK(write(STDOUT_FILENO, line, (size_t)length) == length);
    return 0;
}
