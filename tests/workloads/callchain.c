/* A call chain with everything that makes stacks hard to walk: callbacks out of the C library, function pointers, alloca,
 * over-aligned locals, variable arguments, longjmp, large frames.
 *
 * callchain [--seconds S] [--threads N]; the chain ends in leaf_work. */
#include "work.h"
#include <alloca.h>
#include <setjmp.h>
#include <stdarg.h>

#define HIDDEN __attribute__((noinline, noclone))

static double seconds;

HIDDEN uint64_t leaf_work(uint64_t value) {
    WORK(100, value);
    return value + 1;
}

HIDDEN uint64_t with_longjmp(uint64_t value) {
    jmp_buf back;
    volatile uint64_t kept = value;
    if (setjmp(back) == 0) {
        kept = leaf_work(kept);
        longjmp(back, 1);
    }
    return leaf_work(kept) + 1;
}

HIDDEN uint64_t with_arguments(int count, ...) {
    va_list list;
    uint64_t value = 0;
    va_start(list, count);
    for (int i = 0; i < count; i++) value ^= va_arg(list, uint64_t);
    va_end(list);
    return with_longjmp(value | 1) + 1;
}

HIDDEN uint64_t with_alignment(uint64_t value) {
    _Alignas(64) volatile uint64_t block[16];
    for (int i = 0; i < 16; i++) block[i] = value + (uint64_t)i;
    value = with_arguments(3, block[3], block[5], block[9]);
    return value + block[1];
}

HIDDEN uint64_t with_alloca(uint64_t value) {
    size_t bytes = 16 + value % 4000;
    volatile char *room = alloca(bytes);
    room[0] = room[bytes - 1] = (char)value;
    value = with_alignment(value);
    return value + (uint64_t)room[0];
}

HIDDEN uint64_t with_large_frame(uint64_t value) {
    volatile char room[20000];
    room[value % sizeof room] = 1;
    value = with_alloca(value);
    return value + (uint64_t)room[0];
}

static uint64_t (*volatile indirect)(uint64_t) = with_large_frame;
static _Thread_local uint64_t state = 7;

static int compare(const void *one, const void *other) {
    state = indirect(state) | 1;
    return *(const int *)one - *(const int *)other;
}

HIDDEN void sort_some(void) {
    int numbers[16];
    for (int i = 0; i < 16; i++) numbers[i] = (i * 7) % 16;
    qsort(numbers, 16, sizeof *numbers, compare);
    CHECK(numbers[3] == 3);
}

HIDDEN void *run_chain(void *unused) {
    (void)unused;
    double end = thread_cpu() + seconds;
    while (thread_cpu() < end) sort_some();
    return NULL;
}

static void *worker(void *unused) {
    pthread_setname_np(pthread_self(), "worker");
    void *result = run_chain(unused);
    __asm__ volatile("" ::: "memory"); /* not a tail call */
    return result;
}

int main(int argc, char **argv) {
    int threads = (int)option(argc, argv, "--threads", 1);
    seconds = option(argc, argv, "--seconds", 0.3);
    pthread_t ids[64];
    CHECK(threads <= 64);
    for (int i = 0; i < threads; i++) CHECK(pthread_create(&ids[i], NULL, worker, NULL) == 0);
    run_chain(NULL);
    for (int i = 0; i < threads; i++) pthread_join(ids[i], NULL);
    printf("cpu=%.6f\n", process_cpu());
    return 0;
}
