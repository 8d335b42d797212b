/* Many short threads: threads --count N --at-once M --us U [--detached 1]. Each burns U microseconds. */
#include "work.h"

static double seconds;
static int done;

static void *brief(void *unused) {
    (void)unused;
    burn(seconds);
    __atomic_add_fetch(&done, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

int main(int argc, char **argv) {
    int count = (int)option(argc, argv, "--count", 10000), at_once = (int)option(argc, argv, "--at-once", 8);
    int detached = (int)option(argc, argv, "--detached", 0);
    seconds = 1e-6 * option(argc, argv, "--us", 20);
    pthread_t ids[256];
    CHECK(at_once <= 256);
    for (int started = 0; started < count; started += at_once) {
        int now = count - started < at_once ? count - started : at_once;
        for (int i = 0; i < now; i++) {
            CHECK(pthread_create(&ids[i], NULL, brief, NULL) == 0);
            if (detached) CHECK(pthread_detach(ids[i]) == 0);
        }
        if (!detached)
            for (int i = 0; i < now; i++) CHECK(pthread_join(ids[i], NULL) == 0);
        while (__atomic_load_n(&done, __ATOMIC_SEQ_CST) < started + now) sched_yield();
    }
    printf("done=%d cpu=%.6f\n", done, process_cpu());
    return 0;
}
