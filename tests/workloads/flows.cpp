// Control that does not return where it came from: flows --what throw|longjmp|context|switch|lost|vfork [--seconds S].
#include "work.h"
#include <setjmp.h>
#include <spawn.h>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <ucontext.h>
#include <vector>

#define HIDDEN __attribute__((noinline))

static double seconds;

HIDDEN static uint64_t leaf_work(uint64_t value) {
    WORK(60, value);
    return value | 1;
}

// ---- Exceptions through frames with destructors ----

struct Witness {
    static long alive;
    std::string text = "a witness that needs its destructor to run";
    Witness() { alive++; }
    ~Witness() { alive--; }
};
long Witness::alive = 0;

HIDDEN static uint64_t thrower(uint64_t value, int depth) {
    Witness witness;
    if (depth == 0) throw std::runtime_error(witness.text);
    value = leaf_work(thrower(value, depth - 1));
    return value + witness.text.size();
}

HIDDEN static void throw_storm() {
    uint64_t value = 5;
    for (double end = thread_cpu() + seconds; thread_cpu() < end;) {
        try {
            value += thrower(value, 12);
        } catch (const std::exception &error) {
            value += leaf_work(error.what()[0]);
        }
        CHECK(Witness::alive == 0);
    }
}

// ---- longjmp over many frames ----

static jmp_buf back;

HIDDEN static void jumper(uint64_t value, int depth) {
    value = leaf_work(value);
    if (depth == 0) longjmp(back, 1);
    jumper(value, depth - 1);
    __asm__ volatile("" ::: "memory");
}

HIDDEN static void longjmp_storm() {
    for (double end = thread_cpu() + seconds; thread_cpu() < end;)
        if (setjmp(back) == 0) jumper(9, 10);
}

// ---- Coroutines: ucontext, and a switch of our own as Boost's ----

static ucontext_t main_context, coroutine_context;
static volatile bool stop;

HIDDEN static void coroutine_work(int depth) {
    leaf_work(3);
    if (depth > 0) return coroutine_work(depth - 1), (void)leaf_work(4);
    swapcontext(&coroutine_context, &main_context);
    __asm__ volatile("" ::: "memory");
}

static void coroutine() {
    while (!stop) coroutine_work(5);
}

HIDDEN static void context_storm() {
    std::vector<char> stack(64 * 1024);
    CHECK(getcontext(&coroutine_context) == 0);
    coroutine_context.uc_stack.ss_sp = stack.data();
    coroutine_context.uc_stack.ss_size = stack.size();
    coroutine_context.uc_link = &main_context;
    makecontext(&coroutine_context, coroutine, 0);
    for (double end = thread_cpu() + seconds; thread_cpu() < end;) {
        leaf_work(7);
        swapcontext(&main_context, &coroutine_context);
    }
    stop = true;
    swapcontext(&main_context, &coroutine_context);
}

#if defined(__x86_64__)
// Saves the callee-saved registers and the stack pointer, continues on another stack. It has no unwind tables.
extern "C" void switch_stack(void **from, void *to);
__asm__(".text\n"
        ".globl switch_stack\n"
        ".type switch_stack, @function\n"
        "switch_stack:\n"
        "push %rbp; push %rbx; push %r12; push %r13; push %r14; push %r15\n"
        "mov %rsp, (%rdi)\n"
        "mov %rsi, %rsp\n"
        "pop %r15; pop %r14; pop %r13; pop %r12; pop %rbx; pop %rbp\n"
        "ret\n"
        ".size switch_stack, . - switch_stack\n");

static void *main_stack, *own_stack;

HIDDEN static void fiber_work(int depth) {
    leaf_work(3);
    if (depth > 0) return fiber_work(depth - 1), (void)leaf_work(4);
    switch_stack(&own_stack, main_stack);
    __asm__ volatile("" ::: "memory");
}

static void fiber() {
    for (;;) fiber_work(5);
}

// `caller` is where the fiber's outermost function would return to.
HIDDEN static void switch_storm(uint64_t caller) {
    std::vector<uint64_t> stack(8 * 1024);
    // As if `fiber` had been called from there: the return address, its start, six registers.
    uint64_t *top = stack.data() + stack.size() - 8;
    top[0] = caller;
    top[-1] = (uint64_t)(uintptr_t)fiber;
    own_stack = top - 7;
    for (double end = thread_cpu() + seconds; thread_cpu() < end;) {
        leaf_work(7);
        switch_stack(&main_stack, own_stack);
    }
}
#endif

// ---- A child that shares the stack ----

HIDDEN static void vfork_storm() {
    for (double end = thread_cpu() + seconds; thread_cpu() < end;) {
        pid_t child = vfork();
        if (child == 0) _exit(3);
        int status = 0;
        CHECK(child > 0 && waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 3);
        for (int i = 0; i < 20; i++) leaf_work(11);
    }
}

int main(int argc, char **argv) {
    seconds = option(argc, argv, "--seconds", 0.3);
    std::string what = word_option(argc, argv, "--what", "");
    if (what == "throw") throw_storm();
    else if (what == "longjmp") longjmp_storm();
    else if (what == "context") context_storm();
#if defined(__x86_64__)
    else if (what == "switch") switch_storm(0);
    else if (what == "lost") switch_storm(0x123456);
#endif
    else if (what == "vfork") vfork_storm();
    else CHECK(!"what?");
    printf("cpu=%.6f\n", process_cpu());
    return 0;
}
