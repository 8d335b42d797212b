/* Collectives of teams of OpenSHMEM 1.5 among four, on a stand-in library (libsma.c), each told as a trace should have it: in SHMEM_CALLS, in a file named
 * by the process. The fourth comes last to `shmem_team_sync`, when the others wait in it. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "shmem_teams.h"

#define CHECK(what) do { if (!(what)) { printf("failed: %s\n", #what); exit(1); } } while (0)
#define TELL(call, ...) do { call; fprintf(told, __VA_ARGS__); fputc('\n', told); } while (0)

static FILE *told;

int main(void) {
    char path[4096];
    int result;
    long longs[8], gained[32];
    int ints[8], more[32];
    double reals[8], others[8];
    standin_fork(4);
    snprintf(path, sizeof path, "%s/%d", getenv("SHMEM_CALLS"), (int)getpid());
    told = fopen(path, "w");
    CHECK(told != NULL);
    TELL(shmem_init(), "shmem_init");
    int me = shmem_my_pe();
    shmem_team_t world = SHMEM_TEAM_WORLD, even;
    CHECK(shmem_n_pes() == 4 && shmem_team_my_pe(world) == me);
    for (int i = 0; i < 8; i++) longs[i] = 10 * me + i, ints[i] = 100 * me + i, reals[i] = me + i / 8.0;
    if (me == 3) while (standin_waiting(world) < 3) sched_yield();
    TELL(shmem_team_sync(world), "shmem_team_sync team=%p blocking=1", (void *)world);
    TELL(result = shmem_long_sum_reduce(world, gained, longs, 5), "shmem_long_sum_reduce team=%p count=5 bytes=40 blocking=1 rank=%d ranks=4 sent=40 received=40", (void *)world, me);
    CHECK(result == 0 && gained[4] == 60 + 16);
    TELL(result = pshmem_long_sum_reduce(world, gained, longs, 2), "shmem_long_sum_reduce team=%p count=2 bytes=16 blocking=1 rank=%d ranks=4 sent=16 received=16", (void *)world, me);
    CHECK(result == 0);
    TELL(result = shmem_team_split_strided(world, 0, 2, 2, NULL, 0, &even), "shmem_team_split_strided team=%p blocking=1", (void *)world);
    CHECK(result == 0 && (even != SHMEM_TEAM_INVALID) == (me % 2 == 0));
    if (me % 2 == 0) {
        int own = me / 2;
        CHECK(shmem_team_n_pes(even) == 2 && shmem_team_my_pe(even) == own);
        TELL(result = shmem_long_broadcast(even, gained, longs, 3, 1), "shmem_long_broadcast team=%p root=1 count=3 bytes=24 blocking=1 rank=%d ranks=2 %s=24", (void *)even, own, own == 1 ? "sent" : "received");
        CHECK(result == 0 && gained[2] == 22);
        TELL(result = shmem_broadcastmem(even, gained, longs, 17, 0), "shmem_broadcastmem team=%p root=0 bytes=17 blocking=1 rank=%d ranks=2 %s=17", (void *)even, own, own == 0 ? "sent" : "received");
        CHECK(result == 0);
        TELL(result = shmem_int_collect(even, more, ints, (size_t)(1 + own)), "shmem_int_collect team=%p count=%d bytes=%d blocking=1 rank=%d ranks=2 sent=%d", (void *)even, 1 + own, 4 + 4 * own, own, 4 + 4 * own);
        CHECK(result == 0 && more[0] == 0 && more[1] == 200 && more[2] == 201);
        TELL(result = shmem_long_fcollect(even, gained, longs, 3), "shmem_long_fcollect team=%p count=3 bytes=24 blocking=1 rank=%d ranks=2 sent=24 received=48", (void *)even, own);
        CHECK(result == 0 && gained[3] == 20);
        TELL(shmem_team_destroy(even), "shmem_team_destroy team=%p blocking=1", (void *)even);
    } else {
        TELL(result = shmem_long_sum_reduce(even, gained, longs, 5), "shmem_long_sum_reduce team=0x0 count=5 bytes=40 blocking=1 result=-1");
        CHECK(result == -1);
    }
    TELL(result = shmem_int_alltoall(world, more, ints, 2), "shmem_int_alltoall team=%p count=2 bytes=8 blocking=1 rank=%d ranks=4 sent=32 received=32", (void *)world, me);
    CHECK(result == 0 && more[6] == 300 + 2 * me);
    TELL(result = shmem_double_alltoalls(world, others, reals, 1, 1, 1), "shmem_double_alltoalls team=%p count=1 bytes=8 blocking=1 rank=%d ranks=4 sent=32 received=32", (void *)world, me);
    CHECK(result == 0 && others[3] == 3 + me / 8.0);
    TELL(shmem_finalize(), "shmem_finalize blocking=1");
    fclose(told);
    int status;
    while (me == 0 && wait(&status) > 0) CHECK(status == 0);
    return 0;
}
