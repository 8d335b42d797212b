/* Traces a process as a debugger does, and lets it run: traces PID. Prints `traces`, and waits to be killed. */
#include "work.h"
#include <sys/ptrace.h>

int main(int count, char **words) {
    CHECK(count == 2);
    CHECK(ptrace(PTRACE_SEIZE, atoi(words[1]), 0, 0) == 0);
    puts("traces");
    fflush(stdout);
    for (;;) pause();
}
