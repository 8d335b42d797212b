/* A short life: brief SECONDS WAY [THREADS]. Burns that much CPU time, in the first thread or in each of so many others that still wait
 * when the process ends, and ends by return, exit, _exit, quick_exit or thread (another thread than the first ends the process, with
 * exit_group). Adds its CPU time to the file that BRIEF_SUM names. */
#include "work.h"
#include <fcntl.h>
#include <sys/syscall.h>

static void tell(void) {
    const char *path = getenv("BRIEF_SUM");
    char line[32];
    int length = snprintf(line, sizeof line, "%.6f\n", process_cpu());
    int file = path ? open(path, O_WRONLY | O_CREAT | O_APPEND, 0600) : -1;
    if (file >= 0) CHECK(write(file, line, (size_t)length) == length);
}

static void *last(void *seconds) {
    burn(*(double *)seconds);
    tell();
    syscall(SYS_exit_group, 0);
    return NULL;
}

static pthread_barrier_t all;

static void *park(void *seconds) {
    burn(*(double *)seconds);
    pthread_barrier_wait(&all);
    for (;;) pause();
}

int main(int argc, char **argv) {
    double seconds = argc > 1 ? atof(argv[1]) : 0.005;
    const char *way = argc > 2 ? argv[2] : "return";
    int threads = argc > 3 ? atoi(argv[3]) : 0;
    CHECK(pthread_barrier_init(&all, NULL, (unsigned)threads + 1) == 0);
    for (int i = 0; i < threads; i++) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, park, &seconds) == 0);
    }
    if (threads > 0) {
        pthread_barrier_wait(&all);
        seconds = 0;
    }
    if (strcmp(way, "thread") == 0) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, last, &seconds) == 0);
        pthread_join(thread, NULL);
    }
    burn(seconds);
    tell();
    if (strcmp(way, "exit") == 0) exit(0);
    if (strcmp(way, "_exit") == 0) _exit(0);
    if (strcmp(way, "quick_exit") == 0) quick_exit(0);
    return 0;
}
