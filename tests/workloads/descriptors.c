/* Which descriptors are open in a program with four threads: descriptors [daemon|close-all|raise|lower]. As `daemon` it closes all and works. Else it
 * prints the numbers of perf events, closes all that are not its own, or changes its limit of them, has threads again, works, and checks that its own
 * files are its own. */
#include "work.h"
#include <dirent.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#define THREADS 4

static pthread_barrier_t there, listed;

static void *thread(void *unused) {
    (void)unused;
    pthread_barrier_wait(&there);
    pthread_barrier_wait(&listed);
    burn(0.05);
    return NULL;
}

static void list(void) {
    DIR *folder = opendir("/proc/self/fd");
    CHECK(folder != NULL);
    for (struct dirent *entry; (entry = readdir(folder));) {
        char target[64] = "";
        if (readlinkat(dirfd(folder), entry->d_name, target, sizeof target - 1) > 0 && strstr(target, "perf_event"))
            printf("fd %s\n", entry->d_name);
    }
    closedir(folder);
}

static void round_of_threads(int print) {
    pthread_t ids[THREADS];
    for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&ids[i], NULL, thread, NULL) == 0);
    pthread_barrier_wait(&there);
    if (print) list();
    pthread_barrier_wait(&listed);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_join(ids[i], NULL) == 0);
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    CHECK(pthread_barrier_init(&there, NULL, THREADS + 1) == 0 && pthread_barrier_init(&listed, NULL, THREADS + 1) == 0);
    if (strcmp(mode, "daemon") == 0) {
        burn(0.05);
        for (int fd = 3; fd < (int)sysconf(_SC_OPEN_MAX); fd++) close(fd);
        burn(0.8);
        return 0;
    }
    round_of_threads(1);
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    if (strcmp(mode, "close-all") == 0) {
        for (int fd = 3; fd < (int)limit.rlim_cur; fd++) close(fd);
        /* Whoever took these numbers has lost them. */
        for (int fd = 3; fd < (int)limit.rlim_cur - 1; fd++) CHECK(open("/dev/zero", O_RDONLY) == fd);
        burn(0.3);
        for (int fd = 3; fd < (int)limit.rlim_cur - 1; fd++) CHECK((fcntl(fd, F_GETFL) & ~0100000) == O_RDONLY);
        for (int fd = 64; fd < (int)limit.rlim_cur - 1; fd++) close(fd);
    }
    if (strcmp(mode, "raise") == 0) limit.rlim_cur = limit.rlim_max;
    if (strcmp(mode, "lower") == 0) limit.rlim_cur = 100;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    round_of_threads(0);
    burn(0.1);
    printf("ok %s\n", mode);
    return 0;
}
