/* Offloads a loop with data to and from a device, so often: `openmp_target [ROUNDS]`. Compile with -fopenmp and -fopenmp-targets=. */
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv) {
    int rounds = argc > 1 ? atoi(argv[1]) : 1, count = 1000;
    double *values = calloc(count, sizeof *values), sum = 0;
    for (int round = 0; round < rounds; round++) {
#pragma omp target teams distribute parallel for map(tofrom : values[0 : count]) num_teams(2) /* line: target */
        for (int i = 0; i < count; i++) {
            values[i] += i;
        }
    }
    for (int i = 0; i < count; i++) {
        sum += values[i];
    }
    printf("sum=%.0f\n", sum);
    return sum == rounds * 499500.0 ? 0 : 1;
}
