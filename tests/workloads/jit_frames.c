/* Code made at run time that has no frame pointer and registers its unwind tables:
 * jit_frames [--functions N] [--rounds N] [--silent 1] [--left 1].
 *
 * Each function makes a frame of its own size and puts return addresses into it that lead elsewhere, so that only its tables lead
 * to its caller. In every round the functions are taken back, and others with other frames are made in their place. Half of them
 * hand over a whole .eh_frame, as compilers do that were built for libgcc, the others one FDE, as those for LLVM's libunwind.
 * Silent, nothing is registered and no false return address is written. Left: before each call, other functions put theirs where
 * the frame of the generated code is going to be. */
#include "work.h"
#include <sys/mman.h>

#define CODE_BYTES 128
#define TABLE_BYTES 128

extern void __register_frame(void *);
extern void __deregister_frame(void *);

typedef void jitted_function(void (*callback)(void), void *decoy);

static __attribute__((noinline)) void callback(void) {
    uint64_t value = 7;
    WORK(150, value);
}

static unsigned char *put(unsigned char *to, const void *bytes, size_t count) {
    memcpy(to, bytes, count);
    return to + count;
}

static unsigned char *put4(unsigned char *to, uint32_t value) { return put(to, &value, 4); }

#if defined(__x86_64__)
/* Writes a function with a frame of this many bytes; returns its length without the final ret. */
static uint32_t make_code(unsigned char *start, uint32_t frame) {
    static const unsigned char loop[] = {0x48, 0xff, 0xc9, 0x75, 0xfb}; /* 1: dec rcx; jnz 1b */
    unsigned char *to = put4(put(start, "\x48\x81\xec", 3), frame);      /* sub rsp, frame */
    to = put(to, "\x48\x89\x34\x24", 4);                                  /* mov [rsp], rsi */
    to = put(to, "\x48\x89\x74\x24\x10", 5);                              /* mov [rsp + 16], rsi */
    to = put4(put(to, "\x48\xc7\xc1", 3), 20000);                         /* mov rcx, 20000 */
    to = put(to, loop, sizeof loop);
    to = put(to, "\xff\xd7", 2); /* call rdi */
    to = put4(put(to, "\x48\xc7\xc1", 3), 20000);
    to = put(to, loop, sizeof loop);
    to = put4(put(to, "\x48\x81\xc4", 3), frame); /* add rsp, frame */
    *to = 0xc3;
    CHECK(to - start < CODE_BYTES);
    return (uint32_t)(to - start);
}

static unsigned char *put_uleb(unsigned char *to, uint32_t value) {
    for (; value > 127; value >>= 7) *to++ = (unsigned char)(value | 128);
    *to++ = (unsigned char)value;
    return to;
}

/* Writes an .eh_frame of one CIE and one FDE; returns the FDE. */
static unsigned char *make_table(unsigned char *start, const unsigned char *code, uint32_t length, uint32_t frame) {
    /* Version 1, no augmentation, code by 1, data by -8, return address in 16; CFA = rsp + 8, return address at CFA - 8. */
    static const unsigned char cie[] = {0, 0, 0, 0, 1, 0, 1, 0x78, 16, 0x0c, 7, 8, 0x90, 1, 0, 0};
    memset(start, 0, TABLE_BYTES);
    unsigned char *fde = put(put4(start, sizeof cie), cie, sizeof cie);
    unsigned char *to = put4(fde + 4, (uint32_t)(fde + 4 - start));
    uint64_t bounds[2] = {(uint64_t)(uintptr_t)code, length + 1};
    to = put(to, bounds, sizeof bounds);
    *to++ = 0x40 + 7; /* after the sub: CFA = rsp + frame + 8 */
    *to++ = 0x0e;
    to = put_uleb(to, frame + 8);
    *to++ = 0x02; /* at the ret: CFA = rsp + 8 */
    *to++ = (unsigned char)(length - 7);
    *to++ = 0x0e;
    *to++ = 8;
    to += -(to - fde - 4) & 7;
    put4(fde, (uint32_t)(to - fde - 4));
    CHECK(to + 4 - start <= TABLE_BYTES);
    return fde;
}
#else
#error "no code for this machine"
#endif

/* A return address that a search of the stack would take for the caller's. */
static __attribute__((noinline)) void *decoy_return_address(void) { return __builtin_return_address(0); }
static __attribute__((noinline)) void *decoy_caller(void) {
    void *found = decoy_return_address();
    __asm__ volatile("" : "+r"(found));
    return found;
}

static __attribute__((noinline)) void run_jitted(jitted_function *function, void *decoy) {
    function(callback, decoy);
    __asm__ volatile("" ::: "memory");
}

static int compare(const void *a, const void *b) {
    uint64_t one = *(const uint64_t *)a, other = *(const uint64_t *)b;
    return (one > other) - (one < other);
}

static __attribute__((noinline)) uint64_t deeper(int levels, uint64_t *values) {
    if (levels == 0) {
        qsort(values, 32, sizeof *values, compare);
        return values[0];
    }
    return deeper(levels - 1, values) + 1;
}

/* Calls functions that end, one below the other and in libraries: their return addresses stay on the stack. */
static __attribute__((noinline)) void leave_return_addresses(void) {
    static char text[64];
    uint64_t values[32], value = 7;
    for (int i = 0; i < 32; i++) {
        WORK(1, value);
        values[i] = value;
    }
    snprintf(text, sizeof text, "%d %g", (int)deeper(5, values), (double)value);
    free(malloc(values[1] % 64 + 1));
}

int main(int argc, char **argv) {
    int functions = (int)option(argc, argv, "--functions", 300), rounds = (int)option(argc, argv, "--rounds", 4);
    unsigned char *code = mmap(NULL, (size_t)functions * CODE_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned char *tables = calloc((size_t)functions, TABLE_BYTES);
    void **registered = calloc((size_t)functions, sizeof *registered);
    CHECK(code != MAP_FAILED && tables != NULL && registered != NULL);
    char path[64];
    snprintf(path, sizeof path, "/tmp/perf-%d.map", (int)getpid());
    FILE *map = fopen(path, "w");
    CHECK(map != NULL);
    fprintf(map, "%lx %zx jit_frame\n", (unsigned long)code, (size_t)functions * CODE_BYTES);
    fclose(map);
    int silent = (int)option(argc, argv, "--silent", 0);
    int left = (int)option(argc, argv, "--left", 0);
    void *decoy = silent ? NULL : decoy_caller();
    for (int round = 0; round < rounds; round++) {
        for (int i = 0; i < functions; i++) {
            uint32_t frame = 40 + 16 * (uint32_t)((i * 7 + round * 5) % 60);
            unsigned char *own = code + i * CODE_BYTES, *table = tables + i * TABLE_BYTES;
            uint32_t length = make_code(own, frame);
            unsigned char *fde = make_table(table, own, length, frame);
            registered[i] = i % 2 ? table : fde;
            if (!silent) __register_frame(registered[i]);
        }
        double end = thread_cpu() + 0.12;
        for (int i = 0; thread_cpu() < end; i = (i + 1) % functions) {
            if (left) leave_return_addresses();
            run_jitted((jitted_function *)(uintptr_t)(code + i * CODE_BYTES), decoy);
        }
        for (int i = 0; i < functions && !silent; i++) __deregister_frame(registered[i]);
    }
    printf("map=%d cpu=%.6f\n", (int)getpid(), process_cpu());
    return 0;
}
