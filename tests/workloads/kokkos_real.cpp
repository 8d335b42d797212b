// A small program of Kokkos: kernels, a region, a section and a copy, each so often. Prints `sum=`.
#include <Kokkos_Core.hpp>
#include <cstdio>

int main(int argc, char **argv) {
    Kokkos::initialize(argc, argv);
    {
        const int count = 1000;
        Kokkos::View<double *> values("values", count), copy("copy", count);
        double sum = 0;
        Kokkos::Profiling::pushRegion("steps");
        for (int step = 0; step < 5; step++) {
            Kokkos::parallel_for("fill", count, KOKKOS_LAMBDA(int i) { values(i) = i + step; });
            Kokkos::deep_copy(copy, values);
            Kokkos::parallel_reduce("total", count, KOKKOS_LAMBDA(int i, double &part) { part += copy(i); }, sum);
        }
        Kokkos::Profiling::popRegion();
        Kokkos::parallel_scan("prefix", count, KOKKOS_LAMBDA(int i, double &part, bool last) {
            part += values(i);
            if (last) copy(i) = part;
        });
        std::printf("sum=%.0f\n", sum);
    }
    Kokkos::finalize();
    return 0;
}
