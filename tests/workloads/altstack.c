/* Threads whose alternate signal stacks are from as small as the kernel allows up to large: altstack [--seconds S]
 * [--above BYTES] (than the smallest has more than the kernel's minimum).
 *
 * A page without access lies below each, so whoever takes more than there is dies. Under rsys-sample, handlers run on these stacks. */
#include "work.h"
#include <limits.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#ifndef AT_MINSIGSTKSZ
#define AT_MINSIGSTKSZ 51
#endif
#define THREADS 12
#define STEP 2048

static double seconds;
static size_t least;

static int compare(const void *a, const void *b) {
    uint64_t value = *(const uint64_t *)a | 1;
    WORK(2, value);
    uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;
    return (one > other) - (one < other);
}

/* The C library's sort: rules of its frames take an unwinder more room than most. */
static void *sort(void *number) {
    uint64_t values[64];
    size_t bytes = least + STEP * (size_t)(uintptr_t)number, whole = (bytes + 4095) & ~(size_t)4095;
    char *memory = mmap(NULL, whole + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED && mprotect(memory, 4096, PROT_NONE) == 0);
    /* Its lowest byte is the first that can be accessed. */
    stack_t stack = {.ss_sp = memory + 4096, .ss_size = bytes};
    CHECK(sigaltstack(&stack, NULL) == 0);
    for (double end = thread_cpu() + seconds; thread_cpu() < end;) {
        for (size_t i = 0; i < 64; i++) values[i] = (i * 2654435761u) % 1009;
        qsort(values, 64, sizeof values[0], compare);
    }
    return NULL;
}

int main(int argc, char **argv) {
    seconds = option(argc, argv, "--seconds", 0.1);
    least = getauxval(AT_MINSIGSTKSZ);
    if (least < 2048) least = 2048;
    least += (size_t)option(argc, argv, "--above", 0);
    pthread_t ids[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++) CHECK(pthread_create(&ids[i], NULL, sort, (void *)i) == 0);
    for (int i = 0; i < THREADS; i++) pthread_join(ids[i], NULL);
    printf("sorted=1\n");
    return 0;
}
