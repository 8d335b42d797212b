/* Goes on when its profiler is gone: outliving FILE [--locks|--without-ranges]
 *
 * One thread computes and records ranges all the time, another is made and joined again and again, a third sleeps. Prints its id, and writes
 * into FILE how many threads it has made and how often it could not have memory or a thread. With `--locks` threads wait for a lock. */
#include "work.h"
#include "rsys.h"
#include <fcntl.h>
#include <sys/mman.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static volatile uint64_t sink;
static int uses_locks, has_ranges = 1;

static void *request(void *rounds) {
    for (long i = 0; i < (long)rounds; i++) {
        if (has_ranges) rsys_range_push("request");
        if (uses_locks) pthread_mutex_lock(&lock);
        for (int k = 0; k < 200; k++) sink++;
        if (uses_locks) pthread_mutex_unlock(&lock);
        if (has_ranges) rsys_range_pop();
    }
    return NULL;
}

static void *computes(void *unused) {
    for (;;) {
        request((void *)1000);
        sink += burn(0.001);
    }
    return unused;
}

static void *sleeps(void *unused) {
    for (;;) sleep(1000);
    return unused;
}

int main(int argc, char **argv) {
    CHECK(argc > 1);
    uses_locks = argc > 2 && strcmp(argv[2], "--locks") == 0;
    has_ranges = argc <= 2 || strcmp(argv[2], "--without-ranges") != 0;
    int file = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0644);
    CHECK(file >= 0 && ftruncate(file, 4096) == 0);
    volatile long *words = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(words != MAP_FAILED);
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, computes, NULL) == 0);
    CHECK(pthread_create(&thread, NULL, sleeps, NULL) == 0);
    printf("ready %d\n", getpid());
    fflush(stdout);
    for (;;) {
        if (pthread_create(&thread, NULL, request, (void *)1000) != 0)
            words[1]++;
        else
            pthread_join(thread, NULL);
        void *memory = mmap(NULL, 1 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) words[1]++;
        else munmap(memory, 1 << 20);
        words[0]++;
    }
}
