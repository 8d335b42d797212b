/* Waits in system calls during which the way to the caller leads through a register: `vfork`, and stubs that are written like it. Each waits
 * half a second in a function of its own. */
#include "work.h"
#include <sys/syscall.h>
#include <sys/wait.h>

#define WAIT __attribute__((noinline)) long
#define HALF_A_SECOND {0, 500000000}

WAIT in_vfork(void) {
    pid_t child = vfork();
    if (child == 0) {
        struct timespec t = HALF_A_SECOND;
        syscall(SYS_nanosleep, &t, NULL);
        _exit(0);
    }
    waitpid(child, NULL, 0);
    return 0;
}

#ifdef __x86_64__
/* nanosleep(2) with the return address in a register meanwhile, which the tables say. */
long described(struct timespec *, void *);
__asm__(".text\n.globl described\n.type described, @function\ndescribed:\n"
        ".cfi_startproc\n"
        "pop %r8\n.cfi_adjust_cfa_offset -8\n.cfi_register %rip, %r8\n"
        "mov $35, %eax\nsyscall\n"
        "push %r8\n.cfi_adjust_cfa_offset 8\n"
        "ret\n.cfi_endproc\n.size described, .-described\n");

/* The same, which no table says. */
long undescribed(struct timespec *, void *);
__asm__(".text\n.globl undescribed\n.type undescribed, @function\nundescribed:\n"
        "pop %rdx\nmov $35, %eax\nsyscall\npush %rdx\nret\n.size undescribed, .-undescribed\n");

/* The frame is addressed by a register of the call, for the stack pointer is elsewhere. */
long realigned(struct timespec *, void *);
__asm__(".text\n.globl realigned\n.type realigned, @function\nrealigned:\n"
        ".cfi_startproc\n"
        "lea 8(%rsp), %r10\n.cfi_def_cfa %r10, 0\n"
        "and $-64, %rsp\nsub $192, %rsp\n"
        "mov $35, %eax\nsyscall\n"
        "lea -8(%r10), %rsp\n.cfi_def_cfa %rsp, 8\n"
        "ret\n.cfi_endproc\n.size realigned, .-realigned\n");

#define WAITS_IN(stub)                \
    WAIT in_##stub(void) {            \
        struct timespec t = HALF_A_SECOND; \
        return stub(&t, NULL);        \
    }
WAITS_IN(described)
WAITS_IN(undescribed)
WAITS_IN(realigned)
#endif

int main(void) {
    long failed = in_vfork();
#ifdef __x86_64__
    failed |= in_described() | in_undescribed() | in_realigned();
#endif
    return failed != 0;
}
