/* One half of the hot spots: a function that is called and one that is inlined. */
#include "work.h"

__attribute__((noinline)) uint64_t alpha_heavy(long units, uint64_t value) {
    WORK(units, value);
    return value;
}

static inline __attribute__((always_inline)) uint64_t alpha_inlined(long units, uint64_t value) {
    WORK(units, value);
    return value;
}

uint64_t alpha_entry(long units_plain, long units_inlined, uint64_t value) {
    value = alpha_heavy(units_plain, value);
    return alpha_inlined(units_inlined, value) + 1;
}
