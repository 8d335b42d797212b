/* One half of the hot spots: a function that is called and one that is inlined. */
#include "work.h"

__attribute__((noinline)) uint64_t beta_medium(long units, uint64_t value) {
    WORK(units, value);
    return value;
}

static inline __attribute__((always_inline)) uint64_t beta_inlined(long units, uint64_t value) {
    WORK(units, value);
    return value;
}

uint64_t beta_entry(long units_plain, long units_inlined, uint64_t value) {
    value = beta_medium(units_plain, value);
    return beta_inlined(units_inlined, value) + 1;
}
