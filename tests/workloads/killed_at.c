/* Runs a command and kills it in front of one of the changes that it makes to another process: killed_at N COMMAND [ARGUMENT...]
 *
 * Changes are what its first thread does by ptrace (stopping a thread, giving it registers or a mask, letting it go) and by writing with an offset
 * (`pwrite64`, as into `/proc/PID/mem`). Prints `killed=1` where there was an Nth one, else `killed=0` when the command has ended. */
#include "work.h"
#include <signal.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

/* PTRACE_SETSIGMASK of linux/ptrace.h. */
#define SET_MASK 0x420b

static int is_change(const struct user_regs_struct *registers) {
    if (registers->orig_rax == SYS_pwrite64) return 1;
    if (registers->orig_rax != SYS_ptrace) return 0;
    switch ((int)registers->rdi) {
    case PTRACE_SEIZE: case PTRACE_INTERRUPT: case PTRACE_SETREGS: case SET_MASK: case PTRACE_DETACH: return 1;
    default: return 0;
    }
}

int main(int count, char **words) {
    CHECK(count > 2);
    long left = atol(words[1]);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        CHECK(ptrace(PTRACE_TRACEME, 0, 0, 0) == 0);
        execvp(words[2], words + 2);
        _exit(127);
    }
    int status, is_entry = 0, options_set = 0;
    for (;;) {
        CHECK(waitpid(child, &status, __WALL) == child);
        if (!WIFSTOPPED(status)) {
            puts("killed=0");
            return 0;
        }
        int signal = WSTOPSIG(status);
        if (!options_set) {
            CHECK(ptrace(PTRACE_SETOPTIONS, child, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL) == 0);
            options_set = 1;
            signal = 0;
        } else if (signal == (SIGTRAP | 0x80)) {
            struct user_regs_struct registers;
            is_entry = !is_entry;
            signal = 0;
            CHECK(ptrace(PTRACE_GETREGS, child, 0, &registers) == 0);
            if (is_entry && is_change(&registers) && --left == 0) {
                CHECK(kill(child, SIGKILL) == 0);
                CHECK(waitpid(child, &status, __WALL) == child && WIFSIGNALED(status));
                puts("killed=1");
                return 0;
            }
        }
        CHECK(ptrace(PTRACE_SYSCALL, child, 0, signal) == 0);
    }
}
