// What the single-step test steps through: call chains with every kind of frame that compilers and libc make.
// The program stops itself with int3 at the beginning and at the end of main.
#define _GNU_SOURCE
#include <alloca.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

static volatile int sink;
static jmp_buf target;

static int NOINLINE ascending(const void *a, const void *b) {
    return *(const int *)a - *(const int *)b;
}

static int NOINLINE sum_of(int count, ...) {
    va_list list;
    int sum = 0;
    va_start(list, count);
    for (int i = 0; i < count; i++) sum += va_arg(list, int);
    va_end(list);
    return sum;
}

// Uses all callee-saved registers, so that every one is pushed and popped.
static long NOINLINE many_registers(long a, long b, long c, long d, long e, long f) {
    long x = a * b, y = c * d, z = e * f, u = a ^ d, v = b ^ e, w = c ^ f;
    for (int i = 0; i < 2; i++) {
        sink += sum_of(3, (int)x, (int)y, (int)z);
        x += u; y += v; z += w; u ^= x; v ^= y; w ^= z;
    }
    return x + y + z + u + v + w + a + b + c + d + e + f;
}

// An over-aligned local together with alloca: the compiler keeps the frame's address in another register (DRAP).
static int NOINLINE realigned(int n) {
    int aligned[16] __attribute__((aligned(64)));
    char *dynamic = alloca(n + 16);
    memset(dynamic, n, n);
    for (int i = 0; i < 16; i++) aligned[i] = i * n + dynamic[i % n];
    qsort(aligned, 4, sizeof(int), ascending);
    return aligned[n & 15] + (int)((unsigned long)aligned & 63) + (int)many_registers(1, 2, 3, 4, 5, n);
}

static int NOINLINE variable_array(int n) {
    int array[n];
    for (int i = 0; i < n; i++) array[i] = (i * 7919) % 13;
    qsort(array, n, sizeof(int), ascending);
    return array[n / 2];
}

static int NOINLINE large_frame(int n) {
    char text[9000];
    snprintf(text, sizeof text, "%d %s %.3f %lx", n, "text", n / 3.0, (long)n * n);
    return (int)strlen(text) + atoi(text);
}

static int NOINLINE recursive(int n) {
    if (n == 0) return realigned(5);
    return recursive(n - 1) + n;
}

static int NOINLINE early_returns(int n) {
    if (n < 3) return n;
    char *memory = malloc(n);
    if (!memory) return -1;
    if (n < 8) {
        sink += sum_of(2, n, n);
        free(memory);
        return 2 * n;
    }
    memcpy(memory, "0123456789abcdef", n < 16 ? n : 16);
    int result = memory[n / 2] + early_returns(n - 5);
    free(memory);
    return result;
}

static void NOINLINE jump_back(int n) {
    if (n == 0) longjmp(target, 1);
    jump_back(n - 1);
    sink++;
}

static int NOINLINE tail_target(int n) { return sink + n; }
static int NOINLINE tail(int n) { sink++; return tail_target(n * 2); }

static void on_signal(int number) {
    sink += number + variable_array(6);
}

static void NOINLINE signals(void) {
    struct sigaction action = {0};
    action.sa_handler = on_signal;
    sigaction(SIGUSR1, &action, NULL);
    raise(SIGUSR1);

    static char other_stack[64 * 1024];
    stack_t stack = {.ss_sp = other_stack, .ss_size = sizeof other_stack};
    sigaltstack(&stack, NULL);
    action.sa_flags = SA_ONSTACK;
    sigaction(SIGUSR2, &action, NULL);
    kill(getpid(), SIGUSR2);
}

static void NOINLINE clocks(void) {
    struct timespec now;
    for (int i = 0; i < 3; i++) {
        clock_gettime(CLOCK_MONOTONIC, &now);
        sink += now.tv_nsec & 1;
        sink += (int)time(NULL) & 1;
    }
}

extern char __start_main_code[], __stop_main_code[];

__attribute__((section("main_code"))) int main(int argc, char **argv) {
    (void)argv;
    __asm__ volatile("int3" : : "a"(__start_main_code), "d"(__stop_main_code));
    sink = recursive(2 + argc);
    sink += variable_array(20);
    sink += large_frame(12345);
    sink += early_returns(22);
    sink += tail(argc);
    sink += (int)(sin(argc) * 100 + pow(argc + 0.5, 1.7) + exp(argc * 0.1));
    if (setjmp(target) == 0) jump_back(3);
    clocks();
    signals();
    char *copy = strdup("a:b:c");
    for (char *save, *part = strtok_r(copy, ":", &save); part; part = strtok_r(NULL, ":", &save)) sink += part[0];
    sink += (int)strtol("1234", NULL, 10) + (int)strtod("12.75e3", NULL);
    free(copy);
    __asm__ volatile("int3");
    return 0;
}
