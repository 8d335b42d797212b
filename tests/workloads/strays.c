/* Sample signals that nobody sent, as clocks leave them behind: strays handler | thread-end | exec N | storm N. Prints `ok MODE`.
 * The default action of the signal would end the program. */
#include "work.h"
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>

/* What a timer and perf's F_SETSIG put into si_code. */
static const int leftovers[] = {SI_TIMER, POLL_IN, POLL_HUP, SI_KERNEL};

static void leave_one_behind(int code) {
    siginfo_t info;
    memset(&info, 0, sizeof info);
    info.si_signo = SIGSTKFLT;
    info.si_code = code;
    /* The kernel lets a process forge what it sends to itself. */
    CHECK(syscall(SYS_rt_tgsigqueueinfo, getpid(), (pid_t)syscall(SYS_gettid), SIGSTKFLT, &info) == 0);
}

static void leave_all_behind(void) {
    for (size_t i = 0; i < sizeof leftovers / sizeof *leftovers; i++) leave_one_behind(leftovers[i]);
}

/* Past the C library and whatever stands in front of it. */
static long block_really(int number) {
    uint64_t set = 1ull << (number - 1);
    long result;
    register long size __asm__("r10") = 8;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"((long)SYS_rt_sigprocmask), "D"((long)SIG_BLOCK), "S"(&set), "d"(0l), "r"(size)
                     : "rcx", "r11", "memory");
    return result;
}

static void at_thread_end(void *unused) {
    (void)unused;
    leave_all_behind();
}

static pthread_key_t key;

static void *brief_thread(void *unused) {
    (void)unused;
    CHECK(pthread_setspecific(key, &key) == 0);
    leave_all_behind();
    return NULL;
}

static void *burner(void *unused) {
    (void)unused;
    for (;;) burn(1);
    return NULL;
}

/* Executes this program again with a smaller number, or returns when that is 0. */
static void again(char **argv) {
    long left = atol(argv[2]);
    if (left <= 0) return;
    char number[24];
    snprintf(number, sizeof number, "%ld", left - 1);
    execv("/proc/self/exe", (char *[]){argv[0], argv[1], number, NULL});
    CHECK(!"exec returns");
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    if (strcmp(mode, "handler") == 0) {
        leave_all_behind();
        burn(0.1);
    } else if (strcmp(mode, "thread-end") == 0) {
        CHECK(pthread_key_create(&key, at_thread_end) == 0);
        for (int i = 0; i < 50; i++) {
            pthread_t thread;
            CHECK(pthread_create(&thread, NULL, brief_thread, NULL) == 0);
            CHECK(pthread_join(thread, NULL) == 0);
        }
    } else if (strcmp(mode, "exec") == 0 && argc > 2) {
        /* What is pending survives an exec; it is delivered when the new program lets it through. */
        CHECK(block_really(SIGSTKFLT) == 0);
        leave_one_behind(POLL_IN);
        again(argv);
    } else if (strcmp(mode, "storm") == 0 && argc > 2) {
        pthread_t threads[2];
        for (int i = 0; i < 2; i++) CHECK(pthread_create(&threads[i], NULL, burner, NULL) == 0);
        burn(0.002);
        again(argv);
    } else {
        CHECK(!"a known mode");
    }
    printf("ok %s\n", mode);
    return 0;
}
