/* One of each OpenMP construct, so often: `openmp_all [ROUNDS]`. Every line that a test asks for ends with a comment that names it.
 * Compile with -fopenmp, by clang (libomp) or gcc (libgomp). */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(what) do { if (!(what)) { printf("failed: %s\n", #what); exit(1); } } while (0)

static double values[4096];
static long total;

static void tasks(void) {
#pragma omp parallel num_threads(2) /* line: tasks */
    {
#pragma omp single
        {
            for (int i = 0; i < 8; i++) {
#pragma omp task firstprivate(i) /* line: task */
                {
#pragma omp atomic
                    total += i;
                }
            }
#pragma omp taskwait /* line: taskwait */
        }
    }
}

static void locks(void) {
    omp_lock_t lock;
    omp_nest_lock_t nested;
    omp_init_lock(&lock);
    omp_init_nest_lock(&nested);
#pragma omp parallel num_threads(2) /* line: locks */
    {
        omp_set_lock(&lock); /* line: lock */
        total++;
        omp_unset_lock(&lock);
        omp_set_nest_lock(&nested);
        omp_set_nest_lock(&nested);
        total++;
        omp_unset_nest_lock(&nested);
        omp_unset_nest_lock(&nested);
        if (omp_test_lock(&lock)) {
            omp_unset_lock(&lock);
        }
#pragma omp critical /* line: critical */
        total++;
    }
    omp_destroy_lock(&lock);
    omp_destroy_nest_lock(&nested);
}

static void round_of_all(void) {
    double sum = 0;
#pragma omp parallel num_threads(2) /* line: parallel */
    {
#pragma omp for /* line: loop */
        for (int i = 0; i < 4096; i++) {
            values[i] = values[i] * 0.5 + i;
        }
#pragma omp barrier /* line: barrier */
#pragma omp sections /* line: sections */
        {
#pragma omp section
            { total += 0; }
#pragma omp section
            { values[0] += 1; }
        }
#pragma omp master
        values[1] += 1;
    }
#pragma omp parallel for num_threads(2) reduction(+ : sum) /* line: reduction */
    for (int i = 0; i < 4096; i++) {
        sum += values[i];
    }
    CHECK(sum > 0);
    omp_set_max_active_levels(2);
#pragma omp parallel num_threads(2) /* line: outer */
    {
#pragma omp parallel num_threads(2) /* line: inner */
        {
#pragma omp atomic
            total++;
        }
    }
    tasks();
    locks();
}

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 1;
    for (int i = 0; i < rounds; i++) {
        round_of_all();
    }
    printf("total=%ld\n", total);
    return 0;
}
