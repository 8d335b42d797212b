/* A tool of OpenSHMEM's as its interface for them is meant: it stands in front of some functions, counts, and calls them by their other names. */
#include <pshmem.h>
#include <shmem.h>

long counted_calls;

void shmem_long_put(long *to, const long *from, size_t count, int peer) {
    counted_calls++;
    pshmem_long_put(to, from, count, peer);
}

long shmem_long_atomic_fetch_add(long *at, long value, int peer) {
    counted_calls++;
    return pshmem_long_atomic_fetch_add(at, value, peer);
}

/* One that does more: two puts, and waits for them, within one call of the program. */
void shmem_int_put(int *to, const int *from, size_t count, int peer) {
    counted_calls++;
    pshmem_int_put(to, from, count / 2, peer);
    pshmem_int_put(to + count / 2, from + count / 2, count - count / 2, peer);
    pshmem_quiet();
}
