/* Little room: threads with the smallest stacks, coroutines with 16 KiB, a handler on an alternative stack.
 *
 * tinystack [--seconds S] */
#include "work.h"
#include <limits.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>

#define THREADS 30
#define COROUTINES 4
#define COROUTINE_BYTES (16 * 1024)

static double seconds;
static ucontext_t home, coroutines[COROUTINES];
static volatile uint64_t turns;

static void *small(void *unused) {
    (void)unused;
    pthread_setname_np(pthread_self(), "small");
    /* The C library needs much of the stack here, when many threads allocate. */
    free(malloc(64));
    burn(seconds / THREADS);
    return NULL;
}

static void coroutine_body(int number) {
    for (;;) {
        burn(0.0004);
        turns++;
        swapcontext(&coroutines[number], &home);
    }
}

/* A page without access below each stack: whoever writes past its end is found out. */
static char *guarded_stack(void) {
    char *stack = mmap(NULL, COROUTINE_BYTES + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(stack != MAP_FAILED && mprotect(stack, 4096, PROT_NONE) == 0);
    return stack + 4096;
}

static void on_signal(int number) {
    (void)number;
    burn(0.001);
    __asm__ volatile("" ::: "memory"); /* not a tail call */
}

int main(int argc, char **argv) {
    seconds = option(argc, argv, "--seconds", 0.4);
    pthread_attr_t attributes;
    pthread_t ids[THREADS];
    pthread_attr_init(&attributes);
    CHECK(pthread_attr_setstacksize(&attributes, (size_t)PTHREAD_STACK_MIN) == 0);
    for (int i = 0; i < THREADS; i++) CHECK(pthread_create(&ids[i], &attributes, small, NULL) == 0);
    for (int i = 0; i < THREADS; i++) pthread_join(ids[i], NULL);

    for (int i = 0; i < COROUTINES; i++) {
        CHECK(getcontext(&coroutines[i]) == 0);
        coroutines[i].uc_stack.ss_sp = guarded_stack();
        coroutines[i].uc_stack.ss_size = COROUTINE_BYTES;
        coroutines[i].uc_link = NULL;
        makecontext(&coroutines[i], (void (*)(void))coroutine_body, 1, i);
    }
    double end = thread_cpu() + seconds;
    for (int i = 0; thread_cpu() < end; i++) swapcontext(&home, &coroutines[i % COROUTINES]);

    long least = sysconf(_SC_SIGSTKSZ);
    char *room = malloc((size_t)least);
    stack_t alternative = {.ss_sp = room, .ss_size = (size_t)least};
    struct sigaction action = {0};
    action.sa_handler = on_signal;
    action.sa_flags = SA_ONSTACK;
    CHECK(sigaltstack(&alternative, NULL) == 0 && sigaction(SIGUSR1, &action, NULL) == 0);
    for (end = thread_cpu() + seconds; thread_cpu() < end;) raise(SIGUSR1);
    printf("turns=%d cpu=%.6f\n", turns > 10, process_cpu());
    return 0;
}
