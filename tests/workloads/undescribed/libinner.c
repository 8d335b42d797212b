/* Calls back. */
typedef void (*callback)(int);

static __attribute__((noinline)) void library_inner(callback back, int depth) {
    back(depth);
    __asm__ volatile("");
}

void library_outer(callback back, int depth) {
    library_inner(back, depth);
    __asm__ volatile("");
}
