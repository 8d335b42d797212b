/* Four functions in two libraries take 50, 30, 15 and 5 % of the CPU time; two of them are inlined into their callers.
 *
 * hotspots --threads N --seconds S     S is the CPU time of all threads together
 * Prints one line per thread and `cpu=` for the process. */
#include "work.h"

uint64_t alpha_entry(long units_plain, long units_inlined, uint64_t value);
uint64_t beta_entry(long units_plain, long units_inlined, uint64_t value);

static double seconds_per_thread;

static void *worker(void *cpu) {
    pthread_setname_np(pthread_self(), "worker");
    uint64_t value = 88172645463325252ull + (uint64_t)(uintptr_t)cpu;
    double end = thread_cpu() + seconds_per_thread;
    do {
        /* Rounds of random length: a fixed one could march in step with the sampling clock. */
        long scale = 1 + (long)(value % 8);
        value = alpha_entry(50 * scale, 30 * scale, value);
        value = beta_entry(15 * scale, 5 * scale, value);
    } while (thread_cpu() < end);
    *(double *)cpu = thread_cpu();
    return NULL;
}

int main(int argc, char **argv) {
    int threads = (int)option(argc, argv, "--threads", 1);
    seconds_per_thread = option(argc, argv, "--seconds", 1) / threads;
    pthread_t *ids = calloc((size_t)threads, sizeof *ids);
    double *cpu = calloc((size_t)threads, sizeof *cpu);
    for (int i = 0; i < threads; i++) CHECK(pthread_create(&ids[i], NULL, worker, &cpu[i]) == 0);
    for (int i = 0; i < threads; i++) pthread_join(ids[i], NULL);
    for (int i = 0; i < threads; i++) printf("thread %d %.6f\n", i, cpu[i]);
    printf("cpu=%.6f\n", process_cpu());
    return 0;
}
