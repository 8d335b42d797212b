/* Code made at run time, without unwind tables, named by a perf map file: jit [--seconds S]. */
#include "work.h"
#include <sys/mman.h>

/* Counts the first argument down to 0. */
static const unsigned char code[] = {0x48, 0xff, 0xcf, 0x75, 0xfb, 0xc3};

static __attribute__((noinline)) void call_jit(void (*jitted)(uint64_t)) {
    jitted(100000);
    __asm__ volatile("" ::: "memory");
}

int main(int argc, char **argv) {
    double seconds = option(argc, argv, "--seconds", 0.5);
    unsigned char *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(page != MAP_FAILED);
    memcpy(page, code, sizeof code);
    CHECK(mprotect(page, 4096, PROT_READ | PROT_EXEC) == 0);
    char path[64];
    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
    FILE *map = fopen(path, "w");
    CHECK(map != NULL);
    fprintf(map, "%lx %zx jit_countdown\n", (unsigned long)page, sizeof code);
    fclose(map);
    void (*jitted)(uint64_t) = (void (*)(uint64_t))(uintptr_t)page;
    for (double end = thread_cpu() + seconds; thread_cpu() < end;) call_jit(jitted);
    printf("map=%d cpu=%.6f\n", (int)getpid(), process_cpu());
    return 0;
}
