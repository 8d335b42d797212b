/* One thread that serves nobody: idle_server MILLISECONDS. It waits in epoll_wait with this time limit, again and again, until SIGTERM, and looks
 * whether each wait was as long as it should be and was not interrupted. Prints `ready PID`, and at the end `waits=N`, `faults=N` and the longest
 * wait in seconds, `longest=S`. */
#include "work.h"
#include <errno.h>
#include <signal.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

int main(int count, char **words) {
    CHECK(count == 2);
    int limit = atoi(words[1]);
    sigset_t end;
    sigemptyset(&end);
    sigaddset(&end, SIGTERM);
    CHECK(sigprocmask(SIG_BLOCK, &end, NULL) == 0);
    int signals = signalfd(-1, &end, SFD_CLOEXEC), set = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event wanted = {EPOLLIN, {0}}, found;
    CHECK(signals >= 0 && set >= 0 && epoll_ctl(set, EPOLL_CTL_ADD, signals, &wanted) == 0);
    printf("ready %d\n", getpid());
    fflush(stdout);
    unsigned long waits = 0, faults = 0;
    double longest = 0;
    for (;;) {
        double begun = clock_seconds(CLOCK_MONOTONIC);
        int result = epoll_wait(set, &found, 1, limit);
        int error = errno;
        double took = clock_seconds(CLOCK_MONOTONIC) - begun;
        if (result > 0) break;
        waits++;
        if (took > longest) longest = took;
        /* A busy machine makes it longer, nothing makes it shorter. */
        if (result < 0 || took < limit / 1e3 - 0.0005) {
            faults++;
            printf("fault: result %d (%s) after %.4f s\n", result, result < 0 ? strerror(error) : "in time", took);
        }
    }
    printf("waits=%lu\nfaults=%lu\nlongest=%.4f\n", waits, faults, longest);
    return 0;
}
