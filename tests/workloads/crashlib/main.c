/* A library caught the crashes before main; the program faults, and burns with a frame pointer that leads nowhere. Prints
 * `ok` when the handlers got the program's own faults and no others. */
#include "work.h"
#include <setjmp.h>
#include <sys/mman.h>

extern sigjmp_buf crash_recovery;
extern volatile long crash_faults, crash_off_stack;

#define FAULTS 200

#define LITTLE_STACK 65536

/* On a little stack with nothing above it, where the frame pointer leads: a walk must fault there. */
static __attribute__((noinline)) void burn_astray(char *stack, long steps) {
    uint64_t kept_rbp, kept_rsp;
    __asm__ volatile("mov %%rbp, %[kept_rbp]\n\t"
                     "mov %%rsp, %[kept_rsp]\n\t"
                     "lea -16(%[end]), %%rsp\n\t"
                     "lea 64(%[end]), %%rbp\n"
                     "1: dec %[steps]\n\t"
                     "jnz 1b\n\t"
                     "mov %[kept_rsp], %%rsp\n\t"
                     "mov %[kept_rbp], %%rbp"
                     : [kept_rbp] "=&r"(kept_rbp), [kept_rsp] "=&r"(kept_rsp), [steps] "+r"(steps)
                     : [end] "r"(stack + LITTLE_STACK)
                     : "cc", "memory");
}

int main(void) {
    char name[] = "/tmp/rsys-crashlib-XXXXXX";
    int file = mkstemp(name);
    CHECK(file >= 0 && unlink(name) == 0 && ftruncate(file, 1) == 0);
    /* The second page lies behind the end of the file: SIGBUS. */
    volatile char *pages = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE, file, 0);
    CHECK(pages != MAP_FAILED);
    volatile char *volatile nowhere = (volatile char *)16;
    char *stack = mmap(NULL, LITTLE_STACK + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(stack != MAP_FAILED && mprotect(stack + LITTLE_STACK, 4096, PROT_NONE) == 0);
    volatile long round = 0;
    if (sigsetjmp(crash_recovery, 1) != 0) round++;
    while (round < FAULTS) {
        burn_astray(stack, 1000000);
        (void)(round % 2 == 0 ? *nowhere : pages[4096]);
        CHECK(!"the fault passed unseen");
    }
    CHECK(crash_faults == FAULTS && crash_off_stack == 0);
    printf("ok\n");
    return 0;
}
