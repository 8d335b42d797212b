/* A stand-in for a library of OpenSHMEM 1.5 with teams, which no distribution has: processes of one machine that exchange by shared memory. As such libraries
 * do, it has each function by the name for tools, and by the plain one as a weak alias. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "shmem_teams.h"

#define ALIAS(plain) __attribute__((weak, alias("p" plain)))
#define MOST_PES 8
#define SLOT 4096

struct standin_team {
    pthread_barrier_t barrier;
    int start, stride, size;
    int waiting;
};

static struct {
    struct standin_team teams[16];
    int used;
    struct { size_t bytes; char data[SLOT]; } slots[MOST_PES];
} *shared;
static int me, all;
shmem_team_t SHMEM_TEAM_WORLD;

static shmem_team_t make(int start, int stride, int size) {
    shmem_team_t team = &shared->teams[shared->used++];
    pthread_barrierattr_t attributes;
    pthread_barrierattr_init(&attributes);
    pthread_barrierattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&team->barrier, &attributes, (unsigned)size);
    team->start = start, team->stride = stride, team->size = size;
    return team;
}

void standin_fork(int count) {
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED || count > MOST_PES) abort();
    all = count;
    SHMEM_TEAM_WORLD = make(0, 1, count);
    for (int pe = 1; pe < count && me == 0; pe++) {
        pid_t child = fork();
        if (child < 0) abort();
        if (child == 0) me = pe;
    }
}

int standin_waiting(shmem_team_t team) { return __atomic_load_n(&team->waiting, __ATOMIC_SEQ_CST); }

static void meet(shmem_team_t team) {
    __atomic_add_fetch(&team->waiting, 1, __ATOMIC_SEQ_CST);
    if (pthread_barrier_wait(&team->barrier) == PTHREAD_BARRIER_SERIAL_THREAD) __atomic_sub_fetch(&team->waiting, team->size, __ATOMIC_SEQ_CST);
}

static int place(shmem_team_t team) {
    int distance = me - team->start;
    return distance < 0 || distance % team->stride || distance / team->stride >= team->size ? -1 : distance / team->stride;
}

static int member(shmem_team_t team, int number) { return team->start + number * team->stride; }

/* Gives `bytes` to the others, and lets `take` have what each of them gives. */
static int exchange(shmem_team_t team, const void *source, size_t bytes, void (*take)(void *to, int from, const char *data, size_t bytes), void *to) {
    if (team == NULL || place(team) < 0 || bytes > SLOT) return -1;
    shared->slots[me].bytes = bytes;
    memcpy(shared->slots[me].data, source, bytes);
    meet(team);
    for (int number = 0; number < team->size; number++) take(to, number, shared->slots[member(team, number)].data, shared->slots[member(team, number)].bytes);
    meet(team);
    return 0;
}

void pshmem_init(void) {}
void pshmem_finalize(void) { meet(SHMEM_TEAM_WORLD); }
int pshmem_my_pe(void) { return me; }
int pshmem_n_pes(void) { return all; }
int pshmem_team_my_pe(shmem_team_t team) { return team ? place(team) : -1; }
int pshmem_team_n_pes(shmem_team_t team) { return team ? team->size : -1; }
int pshmem_team_sync(shmem_team_t team) {
    if (team == NULL) return -1;
    meet(team);
    return 0;
}
int pshmem_team_split_strided(shmem_team_t parent, int start, int stride, int size, const shmem_team_config_t *config, long mask, shmem_team_t *made) {
    (void)config, (void)mask;
    *made = SHMEM_TEAM_INVALID;
    if (parent == NULL || start + (size - 1) * stride >= parent->size) return -1;
    if (place(parent) == 0) make(member(parent, start), stride * parent->stride, size);
    meet(parent);
    shmem_team_t team = &shared->teams[shared->used - 1];
    meet(parent);
    if (place(team) >= 0) *made = team;
    return 0;
}
void pshmem_team_destroy(shmem_team_t team) { meet(team); }

static void add_longs(void *to, int from, const char *data, size_t bytes) {
    long *sums = to;
    for (size_t i = 0; i < bytes / sizeof(long); i++) sums[i] = (from ? sums[i] : 0) + ((const long *)data)[i];
}
int pshmem_long_sum_reduce(shmem_team_t team, long *dest, const long *source, size_t count) {
    return exchange(team, source, count * sizeof(long), add_longs, dest);
}

struct chosen { int root; void *to; };
static void take_chosen(void *to, int from, const char *data, size_t bytes) {
    struct chosen *chosen = to;
    if (from == chosen->root) memcpy(chosen->to, data, bytes);
}
int pshmem_broadcastmem(shmem_team_t team, void *dest, const void *source, size_t count, int root) {
    return exchange(team, source, count, take_chosen, &(struct chosen){root, dest});
}
int pshmem_long_broadcast(shmem_team_t team, long *dest, const long *source, size_t count, int root) {
    /* Within the library: by its own name. */
    return pshmem_broadcastmem(team, dest, source, count * sizeof(long), root);
}

static void append(void *to, int from, const char *data, size_t bytes) {
    (void)from;
    char **end = to;
    memcpy(*end, data, bytes);
    *end += bytes;
}
int pshmem_int_collect(shmem_team_t team, int *dest, const int *source, size_t count) {
    char *end = (char *)dest;
    return exchange(team, source, count * sizeof(int), append, &end);
}
int pshmem_long_fcollect(shmem_team_t team, long *dest, const long *source, size_t count) {
    char *end = (char *)dest;
    return exchange(team, source, count * sizeof(long), append, &end);
}

struct blocks { char *to; int own; size_t bytes; };
static void take_own(void *to, int from, const char *data, size_t bytes) {
    (void)bytes;
    struct blocks *blocks = to;
    memcpy(blocks->to + (size_t)from * blocks->bytes, data + (size_t)blocks->own * blocks->bytes, blocks->bytes);
}
static int alltoall(shmem_team_t team, void *dest, const void *source, size_t bytes) {
    if (team == NULL) return -1;
    return exchange(team, source, bytes * (size_t)team->size, take_own, &(struct blocks){dest, place(team), bytes});
}
int pshmem_int_alltoall(shmem_team_t team, int *dest, const int *source, size_t count) { return alltoall(team, dest, source, count * sizeof(int)); }
int pshmem_double_alltoalls(shmem_team_t team, double *dest, const double *source, ptrdiff_t dst, ptrdiff_t sst, size_t count) {
    return dst == 1 && sst == 1 ? alltoall(team, dest, source, count * sizeof(double)) : -1;
}

ALIAS("shmem_init") void shmem_init(void);
ALIAS("shmem_finalize") void shmem_finalize(void);
ALIAS("shmem_my_pe") int shmem_my_pe(void);
ALIAS("shmem_n_pes") int shmem_n_pes(void);
ALIAS("shmem_team_my_pe") int shmem_team_my_pe(shmem_team_t team);
ALIAS("shmem_team_n_pes") int shmem_team_n_pes(shmem_team_t team);
ALIAS("shmem_team_sync") int shmem_team_sync(shmem_team_t team);
ALIAS("shmem_team_split_strided") int shmem_team_split_strided(shmem_team_t, int, int, int, const shmem_team_config_t *, long, shmem_team_t *);
ALIAS("shmem_team_destroy") void shmem_team_destroy(shmem_team_t team);
ALIAS("shmem_long_sum_reduce") int shmem_long_sum_reduce(shmem_team_t, long *, const long *, size_t);
ALIAS("shmem_long_broadcast") int shmem_long_broadcast(shmem_team_t, long *, const long *, size_t, int);
ALIAS("shmem_broadcastmem") int shmem_broadcastmem(shmem_team_t, void *, const void *, size_t, int);
ALIAS("shmem_int_collect") int shmem_int_collect(shmem_team_t, int *, const int *, size_t);
ALIAS("shmem_long_fcollect") int shmem_long_fcollect(shmem_team_t, long *, const long *, size_t);
ALIAS("shmem_int_alltoall") int shmem_int_alltoall(shmem_team_t, int *, const int *, size_t);
ALIAS("shmem_double_alltoalls") int shmem_double_alltoalls(shmem_team_t, double *, const double *, ptrdiff_t, ptrdiff_t, size_t);
