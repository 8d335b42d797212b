// A job that hangs: rank 1 waits for something that never comes, rank 3 for a message of rank 1, the others for both. Rank 1 ends it at last.
#include <mpi.h>
#include <unistd.h>

__attribute__((noinline)) static void wait_for_input(void) {
  for (int second = 0; second < 3; second++)
    sleep(1);
}

int main(int argc, char **argv) {
  int rank;
  double value = 1, sum;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  for (int step = 0; step < 5; step++)
    MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 1) {
    wait_for_input();
    MPI_Abort(MPI_COMM_WORLD, 3);
  }
  if (rank == 3)
    MPI_Recv(&value, 1, MPI_DOUBLE, 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Allreduce(&value, &sum, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  MPI_Finalize();
  return 0;
}
