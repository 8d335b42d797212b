// Every rank adds numbers up with all others, again and again; rank 1 first sleeps for 300 ms each time. Argument: how often.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

__attribute__((noinline)) static void late_part(void) {
    struct timespec left = {0, 300 * 1000 * 1000};
    while (nanosleep(&left, &left) != 0) {
    }
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    double sum = 0, one = rank;
    for (int step = 0; step < atoi(argv[1]); step++) {
        if (rank == 1)
            late_part();
        MPI_Allreduce(&one, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return sum == 6 ? 0 : 1;
}
