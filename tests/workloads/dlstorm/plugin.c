/* A library that is opened, used and closed again. It has thread-local storage of the dynamic kind. */
#include "work.h"

static _Thread_local uint64_t calls[64];

static __attribute__((noinline)) uint64_t plugin_inner(uint64_t value) {
    WORK(3000, value);
    return value;
}

uint64_t plugin_work(uint64_t value) {
    calls[value % 64]++;
    return plugin_inner(value + calls[value % 64]) + 1;
}
