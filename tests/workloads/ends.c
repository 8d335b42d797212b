/* Ways to end: ends WAY [NUMBER]. Burns CPU time, prints `ready PID`, and ends. */
#include "work.h"
#include <signal.h>
#include <sys/syscall.h>

static void *forever(void *unused) {
    (void)unused;
    for (;;) burn(1);
}

int main(int argc, char **argv) {
    const char *way = argc > 1 ? argv[1] : "";
    int number = argc > 2 ? atoi(argv[2]) : 0;
    burn(0.3);
    printf("ready %d\n", (int)getpid());
    fflush(stdout);
    if (strcmp(way, "exit") == 0) exit(number);
    if (strcmp(way, "_exit") == 0) _exit(number);
    if (strcmp(way, "quick_exit") == 0) quick_exit(number);
    if (strcmp(way, "exit_group") == 0) syscall(SYS_exit_group, number);
    if (strcmp(way, "abort") == 0) abort();
    if (strcmp(way, "segv") == 0) *(volatile int *)8 = number;
    if (strcmp(way, "trap") == 0) __builtin_trap();
    if (strcmp(way, "kill") == 0) kill(getpid(), number);
    if (strcmp(way, "exec") == 0) execl("/proc/self/exe", argv[0], "exit", "0", (char *)NULL);
    pthread_t id;
    for (int i = 0; i < 3; i++) CHECK(pthread_create(&id, NULL, forever, NULL) == 0);
    if (strcmp(way, "threads") == 0) {
        burn(0.1);
        exit(number);
    }
    if (strcmp(way, "threads-segv") == 0) {
        burn(0.2);
        *(volatile int *)8 = number;
    }
    if (strcmp(way, "main-leaves") == 0) {
        /* The process goes on without its first thread, until another one ends it. */
        alarm(1);
        pthread_exit(NULL);
    }
    if (strcmp(way, "wait") == 0) forever(NULL);
    return 2;
}
