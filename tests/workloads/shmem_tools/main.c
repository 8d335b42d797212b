/* Calls of OpenSHMEM between two by both names, `shmem_` and `pshmem_`, with a tool in front of some (libtool.c), each told as a trace should have it: by
 * its plain name, once. It ends by shmem_global_exit, as `shmem_calls` does. The folder for what it tells is in SHMEM_CALLS. */
#include <pshmem.h>
#include <shmem.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(what) do { if (!(what)) { printf("failed: %s\n", #what); exit(1); } } while (0)
#define TELL(call, ...) do { fprintf(told, __VA_ARGS__); fputc('\n', told); call; } while (0)

extern long counted_calls;

static FILE *told;
static long longs[1000], counter = 5;
static int ints[64];
static double real;
static long sync_words[SHMEM_REDUCE_SYNC_SIZE], sums[4], parts[4], work[SHMEM_REDUCE_MIN_WRKDATA_SIZE];

int main(void) {
    char path[4096];
    long data[1000], old;
    double fetched;
    pshmem_init();
    int me = shmem_my_pe(), peer = 1 - me;
    CHECK(shmem_n_pes() == 2);
    snprintf(path, sizeof path, "%s/%d", getenv("SHMEM_CALLS"), me);
    told = fopen(path, "w");
    CHECK(told != NULL);
    fputs("shmem_init\n", told);
    for (int i = 0; i < SHMEM_REDUCE_SYNC_SIZE; i++) sync_words[i] = SHMEM_SYNC_VALUE;
    for (int i = 0; i < 1000; i++) data[i] = me * 1000 + i;
    for (int i = 0; i < 4; i++) parts[i] = me + i;
    TELL(pshmem_barrier_all(), "shmem_barrier_all blocking=1");
    for (int i = 1; i <= 10; i++) {
        TELL(shmem_long_put(longs, data, 10 * i, peer), "shmem_long_put peer=%d count=%d bytes=%d", peer, 10 * i, 80 * i);
        TELL(pshmem_long_put(longs, data, 7 * i, peer), "shmem_long_put peer=%d count=%d bytes=%d", peer, 7 * i, 56 * i);
    }
    TELL(shmem_int_put(ints, ints, 33, peer), "shmem_int_put peer=%d count=33 bytes=132", peer);
    TELL(pshmem_quiet(), "shmem_quiet");
    TELL(shmem_quiet(), "shmem_quiet");
    TELL(shmem_barrier_all(), "shmem_barrier_all blocking=1");
    CHECK(longs[7] == peer * 1000 + 7);
    TELL(pshmem_getmem(data, longs, 77, peer), "shmem_getmem peer=%d bytes=77", peer);
    TELL(pshmem_ctx_double_p(SHMEM_CTX_DEFAULT, &real, 2.5 + me, peer), "shmem_ctx_double_p peer=%d bytes=8", peer);
    TELL(pshmem_barrier_all(), "shmem_barrier_all blocking=1");
    CHECK(real == 2.5 + peer);
    TELL(fetched = pshmem_double_g(&real, peer), "shmem_double_g peer=%d bytes=8", peer);
    CHECK(fetched == 2.5 + me);
    TELL(old = shmem_long_atomic_fetch_add(&counter, 3, peer), "shmem_long_atomic_fetch_add peer=%d bytes=8", peer);
    CHECK(old == 5);
    TELL(old = pshmem_long_atomic_fetch_add(&counter, 3, peer), "shmem_long_atomic_fetch_add peer=%d bytes=8", peer);
    CHECK(old == 8);
    TELL(pshmem_long_sum_to_all(sums, parts, 4, 0, 0, 2, work, sync_words), "shmem_long_sum_to_all count=4 bytes=32 blocking=1");
    CHECK(sums[3] == 7);
    CHECK(counted_calls == 12);
    fputs("shmem_barrier_all blocking=1\n", told);
    fputs("shmem_global_exit\n", told);
    fclose(told);
    pshmem_barrier_all();
    pshmem_global_exit(0);
}
