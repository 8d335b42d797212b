/* A target region, which gcc's runtime runs on the host: LLVM's runtime does not have the function for it. Compile with gcc -fopenmp. */
#include <stdio.h>

int main(void) {
    double sum = 0;
#pragma omp target map(tofrom : sum)
    for (int i = 0; i < 1000; i++) {
        sum += i;
    }
#pragma omp parallel num_threads(2)
    {
#pragma omp atomic
        sum += 1;
    }
    printf("sum=%g\n", sum);
    return 0;
}
