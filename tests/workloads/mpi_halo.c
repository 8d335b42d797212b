// A ring: every rank works, exchanges numbers with both neighbours, and all add up now and then. Rank 2 works much longer. Argument: how many steps.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

__attribute__((noinline)) static void relax(void) {
    struct timespec left = {0, 5 * 1000 * 1000};
    while (nanosleep(&left, &left) != 0) {
    }
}

__attribute__((noinline)) static void relax_slowly(void) {
    struct timespec left = {0, 300 * 1000 * 1000};
    while (nanosleep(&left, &left) != 0) {
    }
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks;
    MPI_Barrier(MPI_COMM_WORLD);
    for (int step = 0; step < atoi(argv[1]); step++) {
        double own = rank, from_left, from_right, sum;
        if (rank == 2)
            relax_slowly();
        else
            relax();
        MPI_Sendrecv(&own, 1, MPI_DOUBLE, right, 1, &from_left, 1, MPI_DOUBLE, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Request requests[2];
        MPI_Irecv(&from_right, 1, MPI_DOUBLE, right, 2, MPI_COMM_WORLD, &requests[0]);
        MPI_Isend(&own, 1, MPI_DOUBLE, left, 2, MPI_COMM_WORLD, &requests[1]);
        MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
        if (from_left != left || from_right != right)
            MPI_Abort(MPI_COMM_WORLD, 1);
        if (step % 2 == 1)
            MPI_Allreduce(&own, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
