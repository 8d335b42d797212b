/* A library that keeps its caller busy within OpenMP, a call of MPI, and a kernel of Kokkos: as a shared library for MPICH with -fopenmp.
 * What Kokkos does is played: its tool is loaded and called as Kokkos 3.7 does. */
#include <dlfcn.h>
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHECK(what) do { if (!(what)) { printf("failed: %s\n", #what); exit(1); } } while (0)

static void compute(long long duration_ns) {
    struct timespec begin, now;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    do {
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((now.tv_sec - begin.tv_sec) * 1000000000LL + now.tv_nsec - begin.tv_nsec < duration_ns);
}

void within_openmp(long long duration_ns) {
#pragma omp parallel num_threads(2)
    compute(duration_ns);
}

/* The profiler looks through all libraries when MPI is first used: that is none of MPI's time. */
void before_mpi(void) {
    int is_initialized;
    CHECK(MPI_Initialized(&is_initialized) == MPI_SUCCESS && !is_initialized);
}

/* What takes long for one process alone. */
void within_mpi(void) {
    CHECK(MPI_Init(NULL, NULL) == MPI_SUCCESS);
}

void after_mpi(void) {
    MPI_Finalize();
}

void within_kokkos(long long duration_ns) {
    static void (*begin)(const char *, uint32_t, uint64_t *);
    static void (*end)(uint64_t);
    if (begin == NULL) {
        char *tools = strdup(getenv("KOKKOS_TOOLS_LIBS"));
        void *tool = dlopen(strtok(tools, ";"), RTLD_NOW | RTLD_GLOBAL);
        CHECK(tool != NULL);
        void (*init)(int, uint64_t, uint32_t, void *) = dlsym(tool, "kokkosp_init_library");
        begin = dlsym(tool, "kokkosp_begin_parallel_for");
        end = dlsym(tool, "kokkosp_end_parallel_for");
        CHECK(init != NULL && begin != NULL && end != NULL);
        init(0, 20211015, 0, NULL);
    }
    uint64_t id;
    begin("axpy", 0, &id);
    compute(duration_ns);
    end(id);
}
