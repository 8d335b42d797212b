// Calls of MPI whose arguments are known: each rank says what it calls before it does, in the order of the calls.
//
// writes "NAME key=value ..." into the file named by its rank in the folder MPI_CALLS, keys in the order: peer root tag count bytes
// sent_bytes received_bytes sequence; then "errors CALLS FAILED" of its error handler. Of the calls before it knows its rank it says nothing.

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank, size;

static FILE *said;

#define SAY(...) (fprintf(said, __VA_ARGS__), fprintf(said, "\n"))

static void ring(void) {
    double out[500], in[500];
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    memset(out, 0, sizeof out);
    for (int i = 1; i <= 3; i++) {
        if (rank % 2 == 0) {
            SAY("MPI_Send peer=%d tag=7 count=%d bytes=%d", right, 100 * i, 800 * i);
            MPI_Send(out, 100 * i, MPI_DOUBLE, right, 7, MPI_COMM_WORLD);
            SAY("MPI_Recv peer=%d tag=7 count=500 bytes=4000", left);
            MPI_Recv(in, 500, MPI_DOUBLE, left, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Status status;
            SAY("MPI_Recv peer=%d tag=7 count=500 bytes=4000", left);
            MPI_Recv(in, 500, MPI_DOUBLE, left, 7, MPI_COMM_WORLD, &status);
            SAY("MPI_Ssend peer=%d tag=7 count=%d bytes=%d", right, 100 * i, 800 * i);
            MPI_Ssend(out, 100 * i, MPI_DOUBLE, right, 7, MPI_COMM_WORLD);
        }
        SAY("MPI_Sendrecv peer=%d tag=1 count=25 bytes=100", right);
        MPI_Sendrecv(out, 25, MPI_INT, right, 1, in, 25, MPI_INT, left, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
}

static void nonblocking(void) {
    char out[1000], in[1000], more[1000];
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    memset(out, 0, sizeof out);
    MPI_Request requests[3], one;
    for (int i = 0; i < 4; i++) {
        SAY("MPI_Irecv peer=%d tag=2 count=1000 bytes=1000", left);
        MPI_Irecv(in, 1000, MPI_CHAR, left, 2, MPI_COMM_WORLD, &requests[0]);
        SAY("MPI_Irecv peer=%d tag=3 count=1000 bytes=1000", left);
        MPI_Irecv(more, 1000, MPI_CHAR, left, 3, MPI_COMM_WORLD, &requests[1]);
        SAY("MPI_Isend peer=%d tag=3 count=10 bytes=10", right);
        MPI_Isend(out, 10, MPI_CHAR, right, 3, MPI_COMM_WORLD, &requests[2]);
        SAY("MPI_Isend peer=%d tag=2 count=1000 bytes=1000", right);
        MPI_Isend(out, 1000, MPI_CHAR, right, 2, MPI_COMM_WORLD, &one);
        SAY("MPI_Waitall");
        MPI_Waitall(3, requests, MPI_STATUSES_IGNORE);
        SAY("MPI_Wait");
        MPI_Wait(&one, MPI_STATUS_IGNORE);
    }
    MPI_Request persistent;
    SAY("MPI_Send_init tag=4 count=5 bytes=20");
    MPI_Send_init(out, 5, MPI_INT, MPI_PROC_NULL, 4, MPI_COMM_WORLD, &persistent);
    for (int i = 0; i < 2; i++) {
        SAY("MPI_Start");
        MPI_Start(&persistent);
        SAY("MPI_Wait");
        MPI_Wait(&persistent, MPI_STATUS_IGNORE);
    }
    SAY("MPI_Request_free");
    MPI_Request_free(&persistent);
    SAY("MPI_Ibarrier sequence=0");
    MPI_Ibarrier(MPI_COMM_WORLD, &one);
    for (int done = 0; !done;) {
        usleep(2000);
        SAY("MPI_Test");
        MPI_Test(&one, &done, MPI_STATUS_IGNORE);
    }
}

static int collectives(MPI_Comm comm, int sequence) {
    int me, all;
    SAY("MPI_Comm_rank");
    MPI_Comm_rank(comm, &me);
    SAY("MPI_Comm_size");
    MPI_Comm_size(comm, &all);
    int *many = calloc(64 * (size_t)all, sizeof *many), *more = calloc(64 * (size_t)all, sizeof *more);
    int counts[64], places[64];
    for (int i = 0; i < all; i++) {
        counts[i] = i + 1;
        places[i] = 64 * i;
    }
    SAY("MPI_Barrier sequence=%d", sequence++);
    MPI_Barrier(comm);
    SAY("MPI_Bcast root=0 count=10 bytes=40 sequence=%d", sequence++);
    MPI_Bcast(many, 10, MPI_INT, 0, comm);
    SAY("MPI_Allreduce count=16 bytes=64 sequence=%d", sequence++);
    MPI_Allreduce(many, more, 16, MPI_INT, MPI_SUM, comm);
    SAY("MPI_Allreduce count=16 bytes=64 sequence=%d", sequence++);
    MPI_Allreduce(MPI_IN_PLACE, more, 16, MPI_INT, MPI_SUM, comm);
    SAY("MPI_Reduce root=1 count=16 bytes=64 sequence=%d", sequence++);
    MPI_Reduce(many, me == 1 ? more : NULL, 16, MPI_INT, MPI_SUM, 1, comm);
    SAY("MPI_Allgather count=3 bytes=12 received_bytes=%d sequence=%d", 12 * all, sequence++);
    MPI_Allgather(many, 3, MPI_INT, more, 3, MPI_INT, comm);
    // Only the root's arguments for what is received mean something.
    if (me == 1)
        SAY("MPI_Gather root=1 count=3 bytes=12 received_bytes=%d sequence=%d", 12 * all, sequence++);
    else
        SAY("MPI_Gather root=1 count=3 bytes=12 sequence=%d", sequence++);
    MPI_Gather(many, 3, MPI_INT, me == 1 ? more : NULL, me == 1 ? 3 : -1, me == 1 ? MPI_INT : MPI_DATATYPE_NULL, 1, comm);
    if (me == 0)
        SAY("MPI_Scatter root=0 count=4 bytes=16 sent_bytes=%d sequence=%d", 16 * all, sequence++);
    else
        SAY("MPI_Scatter root=0 count=4 bytes=16 sequence=%d", sequence++);
    MPI_Scatter(me == 0 ? many : NULL, me == 0 ? 4 : 0, me == 0 ? MPI_INT : MPI_DATATYPE_NULL, more, 4, MPI_INT, 0, comm);
    SAY("MPI_Alltoall count=2 bytes=8 sent_bytes=%d received_bytes=%d sequence=%d", 8 * all, 8 * all, sequence++);
    MPI_Alltoall(many, 2, MPI_INT, more, 2, MPI_INT, comm);
    int sum = all * (all + 1) / 2;
    SAY("MPI_Allgatherv count=%d bytes=%d received_bytes=%d sequence=%d", me + 1, 4 * (me + 1), 4 * sum, sequence++);
    MPI_Allgatherv(many, me + 1, MPI_INT, more, counts, places, MPI_INT, comm);
    // Each rank sends one element more to the next, and gets as many from all.
    int gets[64];
    for (int i = 0; i < all; i++)
        gets[i] = me + 1;
    if (sum != all * (me + 1))
        SAY("MPI_Alltoallv count=%d bytes=%d received_bytes=%d sequence=%d", sum, 4 * sum, 4 * all * (me + 1), sequence++);
    else
        SAY("MPI_Alltoallv count=%d bytes=%d sequence=%d", sum, 4 * sum, sequence++);
    MPI_Alltoallv(many, counts, places, MPI_INT, more, gets, places, MPI_INT, comm);
    SAY("MPI_Reduce_scatter_block count=2 bytes=8 sent_bytes=%d sequence=%d", 8 * all, sequence++);
    MPI_Reduce_scatter_block(many, more, 2, MPI_INT, MPI_SUM, comm);
    SAY("MPI_Scan count=2 bytes=8 sequence=%d", sequence++);
    MPI_Scan(many, more, 2, MPI_INT, MPI_SUM, comm);
    free(many);
    free(more);
    return sequence;
}

static void types(void) {
    MPI_Datatype column;
    double out[40] = {0}, in[40];
    for (int i = 1; i <= 3; i++) {
        SAY("MPI_Type_vector");
        MPI_Type_vector(4, i, 10, MPI_DOUBLE, &column);
        SAY("MPI_Type_commit");
        MPI_Type_commit(&column);
        SAY("MPI_Sendrecv peer=%d tag=9 count=1 bytes=%d", rank, 32 * i);
        MPI_Sendrecv(out, 1, column, rank, 9, in, 1, column, rank, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        SAY("MPI_Type_free");
        MPI_Type_free(&column);
    }
}

static void onesided(void) {
    MPI_Win window;
    int value[4] = {0}, mine[4] = {0};
    SAY("MPI_Win_create");
    MPI_Win_create(mine, sizeof mine, sizeof *mine, MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    SAY("MPI_Win_fence");
    MPI_Win_fence(0, window);
    SAY("MPI_Put peer=%d count=4 bytes=16", (rank + 1) % size);
    MPI_Put(value, 4, MPI_INT, (rank + 1) % size, 0, 4, MPI_INT, window);
    SAY("MPI_Win_fence");
    MPI_Win_fence(0, window);
    SAY("MPI_Win_free");
    MPI_Win_free(&window);
}

static int errors;

static void note_error(MPI_Comm *comm, int *code, ...) {
    (void)comm;
    (void)code;
    errors++;
}

int main(int argc, char **argv) {
    int before;
    rank = -1;
    // Before MPI_Init nobody knows its rank: these two are not said.
    MPI_Initialized(&before);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    char path[4096];
    snprintf(path, sizeof path, "%s/%d", getenv("MPI_CALLS"), rank);
    said = fopen(path, "w");
    if (!said)
        return 1;
    SAY("MPI_Comm_size");
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    ring();
    nonblocking();
    // The barrier of `nonblocking` was the first.
    int sequence = collectives(MPI_COMM_WORLD, 1);
    types();
    onesided();
    MPI_Comm half, copy;
    SAY("MPI_Comm_split");
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    collectives(half, 0);
    SAY("MPI_Comm_dup");
    MPI_Comm_dup(half, &copy);
    collectives(copy, 0);
    SAY("MPI_Comm_free");
    MPI_Comm_free(&copy);
    SAY("MPI_Comm_free");
    MPI_Comm_free(&half);
    // An error handler of the program's is called as often as it would be without a profiler.
    MPI_Errhandler handler;
    SAY("MPI_Comm_create_errhandler");
    MPI_Comm_create_errhandler(note_error, &handler);
    SAY("MPI_Comm_set_errhandler");
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
    SAY("MPI_Send peer=0 tag=0");
    int result = MPI_Send(NULL, 1, MPI_DATATYPE_NULL, 0, 0, MPI_COMM_WORLD);
    SAY("MPI_Barrier sequence=%d", sequence);
    PMPI_Barrier(MPI_COMM_WORLD);
    fprintf(said, "errors %d %d\n", errors, result != MPI_SUCCESS);
    fclose(said);
    const char *end = argc > 1 ? argv[1] : "";
    if (strcmp(end, "abort") == 0 && rank == 1)
        MPI_Abort(MPI_COMM_WORLD, 3);
    if (strcmp(end, "die") == 0 && rank == 1)
        abort();
    if (*end)
        MPI_Barrier(MPI_COMM_WORLD);
    return MPI_Finalize();
}
