// Sums over OpenMP threads in C++: omp_sum SECONDS of CPU time. Prints `sum=`.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

static double sum_of_roots(const std::vector<double> &values) {
    double sum = 0;
#pragma omp parallel for reduction(+ : sum)
    for (long at = 0; at < (long)values.size(); at++) sum += std::sqrt(values[at] + std::sin(values[at]) + 1);
    return sum;
}

int main(int argc, char **argv) {
    double seconds = argc > 1 ? atof(argv[1]) : 1, sum = 0;
    std::vector<double> values(200000);
    for (size_t at = 0; at < values.size(); at++) values[at] = (double)at;
    while ((double)clock() / CLOCKS_PER_SEC < seconds) sum += sum_of_roots(values);
    printf("sum=%f\n", sum);
    return sum > 0 ? 0 : 1;
}
