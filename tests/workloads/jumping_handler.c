/* A timer's handler jumps out of whatever it interrupts, mostly a record: jumping_handler TIMES
 *
 * Records in one place until it has jumped so often, then some marks `after`, of which it prints the number. */
#include "work.h"
#include "rsys.h"
#include <setjmp.h>
#include <signal.h>
#include <sys/time.h>

static sigjmp_buf start;
static volatile int jumps;

static void on_alarm(int number) {
    (void)number;
    jumps++;
    siglongjmp(start, 1);
}

static void every(long microseconds) {
    struct itimerval timer = {{0, microseconds}, {0, microseconds}};
    CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
}

int main(int argc, char **argv) {
    CHECK(argc == 2);
    int times = atoi(argv[1]);
    struct sigaction action = {.sa_handler = on_alarm};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    sigsetjmp(start, 1);
    every(jumps < times ? 300 : 0);
    while (jumps < times) {
        rsys_mark("work");
    }
    for (int i = 0; i < 1000; i++) rsys_mark("after");
    puts("after=1000");
    return 0;
}
