/* Calls of OpenSHMEM between two, each told in a file as a trace should have it: `shmem_calls`. The folder for the files is in SHMEM_CALLS.
 * It ends by shmem_global_exit: what OpenMPI 4.1 does in shmem_finalize may crash, with or without anybody watching. */
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what) do { if (!(what)) { printf("failed: %s\n", #what); exit(1); } } while (0)

static FILE *told;
static long longs[1000];
static int ints[64];
static double real;
static float half;
static long counter = 5;
static long sync_words[SHMEM_REDUCE_SYNC_SIZE];
static long sums[4], parts[4], work[SHMEM_REDUCE_MIN_WRKDATA_SIZE];
static long collected[64], sync_collect[SHMEM_COLLECT_SYNC_SIZE], sync_broadcast[SHMEM_BCAST_SYNC_SIZE];
static long sync_alltoall[SHMEM_ALLTOALL_SYNC_SIZE];

/* A call, and what is said of it. */
#define TELL(call, ...) do { fprintf(told, __VA_ARGS__); fputc('\n', told); call; } while (0)

int main(void) {
    char path[4096];
    shmem_init();
    int me = shmem_my_pe(), count = shmem_n_pes();
    CHECK(count == 2);
    int peer = 1 - me;
    snprintf(path, sizeof path, "%s/%d", getenv("SHMEM_CALLS"), me);
    told = fopen(path, "w");
    CHECK(told != NULL);
    fputs("shmem_init\n", told);
    for (int i = 0; i < SHMEM_REDUCE_SYNC_SIZE; i++) sync_words[i] = SHMEM_SYNC_VALUE;
    for (int i = 0; i < SHMEM_COLLECT_SYNC_SIZE; i++) sync_collect[i] = SHMEM_SYNC_VALUE;
    for (int i = 0; i < SHMEM_BCAST_SYNC_SIZE; i++) sync_broadcast[i] = SHMEM_SYNC_VALUE;
    for (int i = 0; i < SHMEM_ALLTOALL_SYNC_SIZE; i++) sync_alltoall[i] = SHMEM_SYNC_VALUE;
    long data[1000];
    for (int i = 0; i < 1000; i++) data[i] = me * 1000 + i;
    TELL(shmem_barrier_all(), "shmem_barrier_all blocking=1");
    TELL(shmem_long_put(longs, data, 1000, peer), "shmem_long_put peer=%d count=1000 bytes=8000", peer);
    TELL(shmem_quiet(), "shmem_quiet");
    TELL(shmem_barrier_all(), "shmem_barrier_all blocking=1");
    CHECK(longs[7] == peer * 1000 + 7);
    TELL(shmem_long_get(data, longs, 100, peer), "shmem_long_get peer=%d count=100 bytes=800", peer);
    CHECK(data[7] == me * 1000 + 7);
    TELL(shmem_getmem_nbi(data, longs, 77, peer), "shmem_getmem_nbi peer=%d bytes=77", peer);
    TELL(shmem_put32(ints, data, 16, peer), "shmem_put32 peer=%d count=16 bytes=64", peer);
    TELL(shmem_int_iput(ints, ints, 2, 1, 8, peer), "shmem_int_iput peer=%d count=8 bytes=32", peer);
    TELL(shmem_ctx_int_put_nbi(SHMEM_CTX_DEFAULT, ints, ints, 5, peer), "shmem_ctx_int_put_nbi peer=%d count=5 bytes=20", peer);
    TELL(shmem_double_p(&real, 2.5 + me, peer), "shmem_double_p peer=%d bytes=8", peer);
    TELL(shmem_ctx_float_p(SHMEM_CTX_DEFAULT, &half, 0.5f + me, peer), "shmem_ctx_float_p peer=%d bytes=4", peer);
    TELL(shmem_fence(), "shmem_fence");
    TELL(shmem_barrier_all(), "shmem_barrier_all blocking=1");
    CHECK(real == 2.5 + peer && half == 0.5f + peer);
    double fetched;
    TELL(fetched = shmem_double_g(&real, peer), "shmem_double_g peer=%d bytes=8", peer);
    CHECK(fetched == 2.5 + me);
    TELL(shmem_barrier_all(), "shmem_barrier_all blocking=1");
    TELL(shmem_double_atomic_set(&real, 7.25, peer), "shmem_double_atomic_set peer=%d bytes=8", peer);
    TELL(shmem_quiet(), "shmem_quiet");
    TELL(shmem_barrier_all(), "shmem_barrier_all blocking=1");
    CHECK(real == 7.25);
    TELL(shmem_barrier_all(), "shmem_barrier_all blocking=1");
    TELL(fetched = shmem_double_atomic_swap(&real, 1.5, peer), "shmem_double_atomic_swap peer=%d bytes=8", peer);
    CHECK(fetched == 7.25);
    long old;
    for (int i = 0; i < 10; i++) {
        TELL(old = shmem_long_atomic_fetch_add(&counter, 3, peer), "shmem_long_atomic_fetch_add peer=%d bytes=8", peer);
        CHECK(old == 5 + 3 * i);
    }
    TELL(old = shmem_long_atomic_compare_swap(&counter, 35, 100, peer), "shmem_long_atomic_compare_swap peer=%d bytes=8", peer);
    CHECK(old == 35);
    TELL(shmem_long_wait_until(&counter, SHMEM_CMP_EQ, 100), "shmem_long_wait_until");
    for (int i = 0; i < 4; i++) parts[i] = me + i;
    TELL(shmem_long_sum_to_all(sums, parts, 4, 0, 0, 2, work, sync_words), "shmem_long_sum_to_all count=4 bytes=32 blocking=1");
    CHECK(sums[3] == 7);
    TELL(shmem_fcollect64(collected, parts, 4, 0, 0, 2, sync_collect), "shmem_fcollect64 count=4 bytes=32 blocking=1");
    CHECK(collected[4] == 1);
    TELL(shmem_broadcast64(collected, parts, 3, 1, 0, 0, 2, sync_broadcast), "shmem_broadcast64 root=1 count=3 bytes=24 blocking=1");
    TELL(shmem_alltoall64(collected, longs, 2, 0, 0, 2, sync_alltoall), "shmem_alltoall64 count=2 bytes=16 blocking=1");
    long *symmetric;
    TELL(symmetric = shmem_malloc(4096), "shmem_malloc bytes=4096 blocking=1");
    CHECK(symmetric != NULL);
    TELL(shmem_free(symmetric), "shmem_free blocking=1");
    TELL(symmetric = shmem_calloc(16, 8), "shmem_calloc bytes=128 blocking=1");
    CHECK(symmetric != NULL && symmetric[15] == 0);
    TELL(shmem_free(symmetric), "shmem_free blocking=1");
    fputs("shmem_global_exit\n", told);
    fclose(told);
    printf("done %d\n", me);
    fflush(stdout);
    shmem_barrier_all();
    shmem_global_exit(0);
}
