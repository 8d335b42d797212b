// Nanoseconds for calls of MPI that do nothing: a send to and a receive from nobody, one process alone.
//
// mpi_ends N   the best of 20 parts of N rounds of two calls, as ns=...
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    long rounds = argc > 1 ? atol(argv[1]) : 2000;
    double best = 1e9;
    MPI_Init(&argc, &argv);
    for (int part = 0; part < 20; part++) {
        double begin = MPI_Wtime();
        for (long i = 0; i < rounds; i++) {
            int value = 0;
            MPI_Send(&value, 1, MPI_INT, MPI_PROC_NULL, 7, MPI_COMM_WORLD);
            MPI_Recv(&value, 1, MPI_INT, MPI_PROC_NULL, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        }
        double ns = (MPI_Wtime() - begin) * 1e9 / rounds;
        best = ns < best ? ns : best;
    }
    printf("ns=%.1f\n", best);
    MPI_Finalize();
    return 0;
}
