/* What the programs of these tests use of OpenSHMEM 1.5, with the standard's prototypes. */
#include <stddef.h>

typedef struct standin_team *shmem_team_t;
typedef struct { int num_contexts; } shmem_team_config_t;
extern shmem_team_t SHMEM_TEAM_WORLD;
#define SHMEM_TEAM_INVALID ((shmem_team_t)NULL)

void shmem_init(void);
void shmem_finalize(void);
int shmem_my_pe(void);
int shmem_n_pes(void);
int shmem_team_my_pe(shmem_team_t team);
int shmem_team_n_pes(shmem_team_t team);
int shmem_team_sync(shmem_team_t team);
int shmem_team_split_strided(shmem_team_t parent, int start, int stride, int size, const shmem_team_config_t *config, long mask, shmem_team_t *made);
void shmem_team_destroy(shmem_team_t team);
int shmem_long_sum_reduce(shmem_team_t team, long *dest, const long *source, size_t count);
int pshmem_long_sum_reduce(shmem_team_t team, long *dest, const long *source, size_t count);
int shmem_long_broadcast(shmem_team_t team, long *dest, const long *source, size_t count, int root);
int shmem_broadcastmem(shmem_team_t team, void *dest, const void *source, size_t count, int root);
int shmem_int_collect(shmem_team_t team, int *dest, const int *source, size_t count);
int shmem_long_fcollect(shmem_team_t team, long *dest, const long *source, size_t count);
int shmem_int_alltoall(shmem_team_t team, int *dest, const int *source, size_t count);
int shmem_double_alltoalls(shmem_team_t team, double *dest, const double *source, ptrdiff_t dst, ptrdiff_t sst, size_t count);

/* Of the stand-in alone: becomes this many processes; how many have come to the team's barrier that is not complete. */
void standin_fork(int count);
int standin_waiting(shmem_team_t team);
