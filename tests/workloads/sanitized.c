/* For the sanitizers' runtimes: sanitized ok|many|misuse|leak|race|fork [--seconds S]. Two threads spend three quarters of their time in
 * `threefold` and one in `once`; then comes what the runtime should find. */
#include "work.h"
#include <sys/wait.h>

static double seconds;
static long shared;
static int races;

static __attribute__((noinline)) uint64_t threefold(uint64_t value) {
    WORK(15000, value);
    return value;
}

static __attribute__((noinline)) uint64_t once(uint64_t value) {
    WORK(5000, value);
    return value;
}

static void *worker(void *unused) {
    (void)unused;
    uint64_t value = 88172645463325252ull;
    double end = thread_cpu() + seconds;
    do {
        value = threefold(value);
        value = once(value);
        if (races) shared++;
        free(malloc(value % 100));
    } while (thread_cpu() < end);
    return (void *)(value | 1);
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "";
    seconds = option(argc, argv, "--seconds", 0.3);
    races = strcmp(mode, "race") == 0;
    if (strcmp(mode, "fork") == 0) {
        pid_t child = fork();
        CHECK(child >= 0);
        worker(NULL);
        int status = 0;
        CHECK(child == 0 || (waitpid(child, &status, 0) == child && WIFEXITED(status)));
        return WEXITSTATUS(status);
    }
    for (int round = 0; round < 5 && strcmp(mode, "many") == 0; round++) {
        pthread_t threads[40];
        for (int i = 0; i < 40; i++) CHECK(pthread_create(&threads[i], NULL, worker, NULL) == 0);
        for (int i = 0; i < 40; i++) CHECK(pthread_join(threads[i], NULL) == 0);
    }
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, worker, NULL) == 0);
    worker(NULL);
    CHECK(pthread_join(thread, NULL) == 0);
    char *volatile memory = malloc(10);
    memory[0] = (char)shared;
    if (strcmp(mode, "misuse") == 0) {
        free(memory);
        return memory[argc];
    }
    if (strcmp(mode, "leak") == 0) memory = NULL;
    free(memory);
    printf("ok\n");
    return 0;
}
