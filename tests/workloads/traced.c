/* Makes its parent its tracer, as programs do that want to know whether a debugger has them: every signal stops it from then on until the parent
 * says what becomes of it.
 *
 * traced main|thread|brief|exec|asks|by_number|forked: who does it (a brief thread and no other one), or that it executes itself behind it, or that nothing else
 * happens but the question, in a system call by its number too, or in a child that makes a thread afterwards. Burns 0.3 s, raises a signal that it handles, unless there is nothing but the question, and
 * exits with 3. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t handled;

static void handler(int signal) {
    (void)signal;
    handled++;
}

__attribute__((noinline)) static void burn(void) {
    struct timespec now;
    do
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    while (now.tv_sec == 0 && now.tv_nsec < 300000000);
}

static void *works(void *is_traced) {
    if (is_traced && ptrace(PTRACE_TRACEME, 0, 0, 0) != 0)
        puts("somebody else traces it");
    burn();
    raise(SIGUSR1);
    return NULL;
}

static void *asks(void *argument) {
    ptrace(PTRACE_TRACEME, 0, 0, 0);
    return argument;
}

/* A child that is not let go on by its parent: says when it stops. */
static void forked(void) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
        pthread_t thread;
        asks(NULL);
        pthread_create(&thread, NULL, works, NULL);
        pthread_join(thread, NULL);
        burn();
        _exit(0);
    }
    waitpid(child, &status, 0);
    if (WIFSTOPPED(status)) {
        printf("stopped by %d\n", WSTOPSIG(status));
        kill(child, SIGKILL);
    }
}

int main(int count, char **arguments) {
    const char *who = count > 1 ? arguments[1] : "main";
    signal(SIGUSR1, handler);
    if (strcmp(who, "exec") == 0) {
        ptrace(PTRACE_TRACEME, 0, 0, 0);
        execl(arguments[0], arguments[0], "executed", (char *)NULL);
        return 1;
    }
    pthread_t thread;
    if (strcmp(who, "forked") == 0) {
        forked();
    } else if (strcmp(who, "brief") == 0) {
        pthread_create(&thread, NULL, asks, NULL);
        pthread_join(thread, NULL);
        works(NULL);
    } else if (strcmp(who, "thread") == 0) {
        pthread_create(&thread, NULL, works, &thread);
        pthread_join(thread, NULL);
    } else if (strcmp(who, "asks") == 0 || strcmp(who, "by_number") == 0) {
        burn();
        if (strcmp(who, "asks") == 0)
            asks(NULL);
        else
            syscall(SYS_ptrace, PTRACE_TRACEME, 0, 0, 0);
        struct timespec now;
        do
            clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
        while (now.tv_sec == 0 && now.tv_nsec < 600000000);
    } else {
        works(strcmp(who, "main") == 0 ? arguments : NULL);
    }
    printf("handled %d\n", handled);
    return 3;
}
