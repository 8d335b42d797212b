/* Takes on its own user again and again until SIGTERM, which all threads of the process have to do: prints `ready PID`, and how long the longest call
 * took, `longest_ms=N`. */
#include "work.h"
#include <signal.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t stops;

static void on_end(int signal) { stops = signal; }

static double now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

int main(void) {
    struct sigaction end = {.sa_handler = on_end};
    double longest_ms = 0;
    CHECK(sigaction(SIGTERM, &end, NULL) == 0);
    printf("ready %d\n", getpid());
    fflush(stdout);
    while (!stops) {
        double begin_ms = now_ms();
        CHECK(seteuid(geteuid()) == 0);
        double took_ms = now_ms() - begin_ms;
        if (took_ms > longest_ms) longest_ms = took_ms;
        usleep(1000);
    }
    printf("longest_ms=%.0f\n", longest_ms);
    return 0;
}
