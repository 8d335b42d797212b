/* Computes with a thread pointer that is not the C library's: thread_pointer [zero|area|clone] MILLISECONDS. `zero` and `area` set it with arch_prctl and put
 * it back, without any call of the C library meanwhile; `clone` does so in a thread of a raw clone that gets an area of its own. Prints `done`. */
#include "work.h"
#include <asm/prctl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static char area[1 << 17] __attribute__((aligned(64)));
static char stack[1 << 17] __attribute__((aligned(64)));
static volatile int ended;
static long units;

static int thread(void *unused) {
    (void)unused;
    for (long left = units; left; left--) __asm__ volatile("" ::: "memory");
    ended = 1;
    __asm__ volatile("syscall" ::"a"(SYS_exit), "D"(0) : "rcx", "r11", "memory");
    return 0;
}

int main(int count, char **words) {
    CHECK(count == 3);
    void *own = strcmp(words[1], "zero") == 0 ? NULL : area + sizeof area / 2;
    units = atol(words[2]) * 1000000;
    if (strcmp(words[1], "clone") == 0) {
        int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS;
        CHECK(clone(thread, stack + sizeof stack, flags, NULL, NULL, own, NULL) > 0);
        while (!ended) usleep(1000);
    } else {
        unsigned long before;
        long left = units, result;
        CHECK(syscall(SYS_arch_prctl, ARCH_GET_FS, &before) == 0);
        __asm__ volatile("mov %[set], %%edi\n mov %[own], %%rsi\n mov %[call], %%eax\n syscall\n"
                         "1: dec %[left]\n jnz 1b\n"
                         "mov %[set], %%edi\n mov %[before], %%rsi\n mov %[call], %%eax\n syscall\n"
                         : [left] "+r"(left), "=&a"(result)
                         : [own] "r"(own), [before] "r"(before), [set] "i"(ARCH_SET_FS), [call] "i"(SYS_arch_prctl)
                         : "rdi", "rsi", "rcx", "r11", "memory");
        CHECK(result == 0);
    }
    printf("done\n");
    return 0;
}
