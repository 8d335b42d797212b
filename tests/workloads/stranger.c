/*
 * A program that is compiled for other C libraries: works in threads, gets signals, forks and executes, asks for symbols.
 * Prints what came of it; `environment` prints the profiler's variables too. Ends with 3.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static volatile sig_atomic_t got;
static sigjmp_buf back;

static void note(int signal) { got += signal; }
static void jump(int signal) { siglongjmp(back, signal); }

static void *work(void *argument)
{
    volatile unsigned long sum = 0;
    for (unsigned long n = 0; n < 20000000; n++)
        sum += n;
    return argument;
}

int main(int count, char **words)
{
    printf("arguments=%d", count - 1);
    for (int n = 1; n < count; n++)
        printf(" %s", words[n]);
    putchar('\n');
    if (count > 1 && strcmp(words[1], "environment") == 0)
        for (char **entry = environ; *entry; entry++)
            if (!strncmp(*entry, "LD_PRELOAD", 10) || !strncmp(*entry, "RSYS_AGENT", 10) || !strncmp(*entry, "HSA_", 4))
                puts(*entry);
    pthread_t threads[4];
    long results = 0;
    for (long n = 0; n < 4; n++)
        pthread_create(&threads[n], NULL, work, (void *)(n + 1));
    for (int n = 0; n < 4; n++) {
        void *result;
        pthread_join(threads[n], &result);
        results += (long)result;
    }
    printf("threads=%ld\n", results);
    signal(SIGUSR1, note);
    struct sigaction action = {.sa_handler = note}, before;
    sigaction(SIGUSR2, &action, &before);
    sigset_t set, old;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, &old);
    raise(SIGUSR1);
    raise(SIGUSR2);
    int blocked = got;
    sigprocmask(SIG_SETMASK, &old, NULL);
    printf("signals=%d,%d\n", blocked == SIGUSR2, got == SIGUSR1 + SIGUSR2);
    signal(SIGSEGV, jump);
    int fault = sigsetjmp(back, 1);
    if (fault == 0)
        raise(SIGSEGV);
    printf("fault=%d\n", fault == SIGSEGV);
    pid_t child = fork();
    if (child == 0)
        _exit(4);
    int status;
    waitpid(child, &status, 0);
    printf("forked=%d\n", WEXITSTATUS(status));
    child = fork();
    if (child == 0) {
        execl("/bin/sh", "sh", "-c", "exit 5", (char *)NULL);
        _exit(9);
    }
    waitpid(child, &status, 0);
    printf("executed=%d\n", WEXITSTATUS(status));
#ifndef NO_LOADER
    printf("symbols=%d,%d\n", dlsym(RTLD_DEFAULT, "getpid") != NULL, dlsym(RTLD_DEFAULT, "no_such_function") != NULL);
#endif
    fflush(stdout);
    _exit(3);
}
