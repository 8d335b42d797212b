// Rank 0 gets a number of each rank, adds them up and gives the sum to all, as mpi4py does it for objects. Rank 3 first waits for 300 ms each time. Argument: how often.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

__attribute__((noinline)) static void wait_for_input(void) {
    struct timespec left = {0, 300 * 1000 * 1000};
    while (nanosleep(&left, &left) != 0) {
    }
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    double sum = 0;
    for (int step = 0; step < atoi(argv[1]); step++) {
        double own = rank;
        if (rank == 3)
            wait_for_input();
        if (rank == 0) {
            sum = own;
            for (int other = 1; other < ranks; other++) {
                double number;
                MPI_Recv(&number, 1, MPI_DOUBLE, other, 5, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
                sum += number;
            }
        } else {
            MPI_Send(&own, 1, MPI_DOUBLE, 0, 5, MPI_COMM_WORLD);
        }
        MPI_Bcast(&sum, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return sum == ranks * (ranks - 1) / 2 ? 0 : 1;
}
