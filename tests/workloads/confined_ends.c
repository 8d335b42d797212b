/* Ends behind a seccomp filter that allows hardly anything: confined_ends kill|errno|strict END. The filter punishes or refuses all but three
 * system calls. END is `fault`, `ignored` (a fault whose signal is ignored), `blocked` (one whose signal is blocked), `trap`, `exit`
 * (by the system call that strict mode allows; with 7) or `forbidden` (a system call that is not allowed). */
#include "work.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

static void confine(unsigned verdict) {
    static const unsigned allowed[] = {SYS_write, SYS_exit, SYS_rt_sigreturn};
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[0], 3, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[1], 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, allowed[2], 1, 0),
        BPF_STMT(BPF_RET | BPF_K, verdict),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
}

/* Reading a CPU clock is a system call, and reading the time stamp counter a fault in strict mode. */
static void work(long units) {
    uint64_t value = 88172645463325252ull;
    WORK(units, value);
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    const char *how = argv[1], *end = argv[2];
    sigset_t fault;
    sigemptyset(&fault);
    sigaddset(&fault, SIGSEGV);
    if (strcmp(end, "ignored") == 0) signal(SIGSEGV, SIG_IGN);
    if (strcmp(end, "blocked") == 0) CHECK(sigprocmask(SIG_BLOCK, &fault, NULL) == 0);
    burn(0.05);
    if (strcmp(how, "strict") == 0) CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0);
    else confine(strcmp(how, "kill") == 0 ? SECCOMP_RET_KILL_PROCESS : SECCOMP_RET_ERRNO | 1);
    work(500000);
    CHECK(write(STDOUT_FILENO, "worked\n", 7) == 7);
    if (strcmp(end, "exit") == 0) syscall(SYS_exit, 7);
    else if (strcmp(end, "trap") == 0) __asm__ volatile("int3");
    else if (strcmp(end, "forbidden") == 0) syscall(SYS_getpid);
    else {
        int *volatile nowhere = (int *)8;
        *nowhere = 1;
    }
    syscall(SYS_exit, 9);
    return 0;
}
