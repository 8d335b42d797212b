/* A fixed amount of work at a known depth of calls: chain --units U --depth D --threads N.
 *
 * U units are shared by the N threads. A stack has D frames from the leaf to the thread's first function. It is built up and
 * torn down every few microseconds, through eight functions that call each other, so that neighbouring samples differ. */
#include "report.h"
#include <pthread.h>

#define KEPT __attribute__((noinline, noclone))
#define LEAF_UNITS 40
/* The leaf, its caller `run`, and what the C library puts below it. */
#define FRAMES_AROUND 4

static long units_per_thread;
static int depth;

/* A chain of dependent steps: it takes equally long wherever it stands, and no compiler shortens it. */
KEPT static uint64_t leaf(uint64_t value) {
    for (int i = 0; i < LEAF_UNITS * 64; i++) {
        value ^= value << 13;
        value ^= value >> 7;
        value ^= value << 17;
        __asm__ volatile("" : "+r"(value));
    }
    return value;
}

typedef uint64_t step(uint64_t value, int left);
KEPT step step0, step1, step2, step3, step4, step5, step6, step7;

#define STEP(name, next)                                    \
    uint64_t name(uint64_t value, int left) {               \
        value = left > 0 ? next(value + 1, left - 1) : leaf(value); \
        __asm__ volatile("" : "+r"(value)); /* not a tail call */ \
        return value;                                       \
    }
STEP(step0, step1) STEP(step1, step2) STEP(step2, step3) STEP(step3, step4)
STEP(step4, step5) STEP(step5, step6) STEP(step6, step7) STEP(step7, step0)

KEPT static void *run(void *seed) {
    static step *const first[] = {step0, step1, step2, step3, step4, step5, step6, step7};
    uint64_t value = 88172645463325252ull + (uintptr_t)seed;
    int steps = depth > FRAMES_AROUND ? depth - FRAMES_AROUND - 1 : 0;
    for (long done = 0; done < units_per_thread; done += LEAF_UNITS)
        value = first[value % 8](value, steps);
    return (void *)(uintptr_t)value;
}

int main(int argc, char **argv) {
    int threads = (int)option(argc, argv, "--threads", 1);
    depth = (int)option(argc, argv, "--depth", 10);
    units_per_thread = (long)(option(argc, argv, "--units", 1e6) / threads);
    pthread_t *ids = calloc((size_t)threads, sizeof *ids);
    struct report begin = report_begin();
    if (threads == 1) {
        run(NULL);
    } else {
        for (int i = 0; i < threads; i++)
            if (pthread_create(&ids[i], NULL, run, (void *)(uintptr_t)i) != 0) return 1;
        for (int i = 0; i < threads; i++) pthread_join(ids[i], NULL);
    }
    report_end(begin, "");
    return 0;
}
