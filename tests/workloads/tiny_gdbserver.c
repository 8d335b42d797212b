// A debugger's server that is linked statically: nothing can be preloaded into it. Starts a program, passes on its signals, and prints how often it
// stopped for one that no program sends itself.
#include <signal.h>
#include <stdio.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
    if (argc < 2) return 2;
    pid_t child = fork();
    if (child < 0) return 2;
    if (child == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        execv(argv[1], argv + 1);
        _exit(127);
    }
    int status = 0, stops = 0;
    while (waitpid(child, &status, 0) == child && WIFSTOPPED(status)) {
        int number = WSTOPSIG(status);
        stops += number == SIGSTKFLT;
        // The first stop is that of the exec.
        ptrace(PTRACE_CONT, child, 0, number == SIGTRAP ? 0 : number);
    }
    printf("stops %d\n", stops);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
