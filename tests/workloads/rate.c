/* N threads each burn S seconds of CPU time: rate --threads N --seconds S. Prints `cpu=`, the process's CPU time. */
#include "work.h"

static double seconds;

static void *worker(void *unused) {
    (void)unused;
    pthread_setname_np(pthread_self(), "worker");
    burn(seconds);
    return NULL;
}

int main(int argc, char **argv) {
    int threads = (int)option(argc, argv, "--threads", 1);
    seconds = option(argc, argv, "--seconds", 1);
    pthread_t *ids = calloc((size_t)threads, sizeof *ids);
    for (int i = 0; i < threads; i++) CHECK(pthread_create(&ids[i], NULL, worker, NULL) == 0);
    for (int i = 0; i < threads; i++) pthread_join(ids[i], NULL);
    printf("cpu=%.6f\n", process_cpu());
    return 0;
}
