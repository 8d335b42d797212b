// A rank of an MPI program: says who it is, and burns time after MPI_Init, so that its trace is worth a file.
//
// It needs no mpi.h and is linked with the library by the file's name, so it is the same for OpenMPI and MPICH: what differs is
// the world, an address in one, a number in the other.
//
// prints "rank=R size=N pid=P"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

int MPI_Init(int *argc, char ***argv);
int MPI_Comm_rank(void *comm, int *rank);
int MPI_Comm_size(void *comm, int *size);
int MPI_Barrier(void *comm);
int MPI_Finalize(void);
extern char ompi_mpi_comm_world[] __attribute__((weak));

int main(int argc, char **argv) {
    int rank, size;
    MPI_Init(&argc, &argv);
    void *world = ompi_mpi_comm_world ? ompi_mpi_comm_world : (void *)0x44000000;
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &size);
    struct timespec used, start;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &start);
    do
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    while ((used.tv_sec - start.tv_sec) * 1000000000L + used.tv_nsec - start.tv_nsec < 50000000);
    MPI_Barrier(world);
    printf("rank=%d size=%d pid=%d\n", rank, size, (int)getpid());
    fflush(stdout);
    return MPI_Finalize();
}
