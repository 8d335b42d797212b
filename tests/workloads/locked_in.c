/* Permits itself hardly any system call, and computes until it is killed: locked_in filter|strict. Prints `ready PID` before. */
#include "work.h"
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

int main(int count, char **words) {
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_write, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
    };
    struct sock_fprog program = {sizeof code / sizeof *code, code};
    char ready[64];
    int length = snprintf(ready, sizeof ready, "ready %d\n", getpid());
    CHECK(count == 2);
    if (strcmp(words[1], "strict") == 0) {
        CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT) == 0);
    } else {
        CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
        CHECK(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0);
    }
    CHECK(write(1, ready, length) == length);
    for (uint64_t value = 88172645463325252ull;;) WORK(1000, value);
}
