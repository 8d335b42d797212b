/* Many processes: forks --count N --ms M --at-once K --mode fork|double|vfork|spawn|idle. Each child burns M milliseconds
 * (idle: nothing). Prints `done=` children that ended well. */
#include "work.h"
#include <spawn.h>
#include <sys/wait.h>

extern char **environ;
static double seconds;

static pid_t start(const char *mode, char **argv) {
    char burn_ms[32];
    snprintf(burn_ms, sizeof burn_ms, "%g", 1e3 * seconds);
    char *child[] = {argv[0], "--child", burn_ms, NULL};
    pid_t pid;
    if (strcmp(mode, "spawn") == 0) {
        CHECK(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, child, environ) == 0);
        return pid;
    }
    if (strcmp(mode, "vfork") == 0) {
        pid = vfork();
        if (pid == 0) {
            execv("/proc/self/exe", child);
            _exit(98);
        }
        return pid;
    }
    pid = fork();
    if (pid != 0) return pid;
    if (strcmp(mode, "double") == 0) {
        pid_t grandchild = fork();
        CHECK(grandchild >= 0);
        if (grandchild > 0) _exit(0); /* the grandchild goes on without us */
    }
    if (strcmp(mode, "idle") != 0) burn(seconds);
    exit(0);
}

int main(int argc, char **argv) {
    double child_ms = option(argc, argv, "--child", -1);
    if (child_ms >= 0) {
        burn(1e-3 * child_ms);
        return 0;
    }
    int count = (int)option(argc, argv, "--count", 500), at_once = (int)option(argc, argv, "--at-once", 8), done = 0;
    seconds = 1e-3 * option(argc, argv, "--ms", 5);
    const char *mode = word_option(argc, argv, "--mode", "fork");
    for (int started = 0, running = 0; started < count || running > 0;) {
        if (started < count && running < at_once) {
            CHECK(start(mode, argv) > 0);
            started++, running++;
            continue;
        }
        int status;
        CHECK(wait(&status) > 0);
        running--;
        done += WIFEXITED(status) && WEXITSTATUS(status) == 0;
    }
    burn(seconds);
    printf("done=%d\n", done);
    return done == count ? 0 : 1;
}
