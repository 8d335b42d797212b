/* Threads that live for little more than a sample, one after another: short_threads COUNT MILLISECONDS. Each spends two thirds of its CPU time in `first`
 * and then one third in `then`. */
#include "work.h"

static long units;

static __attribute__((noinline)) uint64_t first(uint64_t value) {
    WORK(2 * units, value);
    return value;
}

static __attribute__((noinline)) uint64_t then(uint64_t value) {
    WORK(units, value);
    return value;
}

static void *thread(void *unused) {
    (void)unused;
    pthread_setname_np(pthread_self(), "short");
    return (void *)(first(88172645463325252ull) + then(3));
}

int main(int argc, char **argv) {
    CHECK(argc == 3);
    double third = atof(argv[2]) / 3000, least = 1;
    for (int i = 0; i < 20; i++) {
        units = 1000;
        double begin = thread_cpu();
        __asm__ volatile("" ::"r"(then(5)));
        double used = thread_cpu() - begin;
        if (used < least) least = used;
    }
    units = (long)(1000 * third / least) + 1;
    for (int i = atoi(argv[1]); i; i--) {
        pthread_t id;
        CHECK(pthread_create(&id, NULL, thread, NULL) == 0 && pthread_join(id, NULL) == 0);
    }
    return 0;
}
