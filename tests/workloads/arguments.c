/* Command lines that are as long as the kernel takes them.
 *
 * arguments most                      prints how many bytes of arguments this program can be executed with
 * arguments with call|raw|spawn BYTES executes this program with so many, and prints how that ended
 * arguments under COMMAND...          becomes the command, with as many bytes of arguments behind it as there is room for
 * arguments NUMBER ...                exits with that code */
#include "work.h"
#include <ctype.h>
#include <errno.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define CHUNK 100000

extern char **environ;

/* The words, and arguments of that many bytes behind them. */
static char **vector(char **words, long bytes) {
    int count = 0;
    while (words[count]) count++;
    char **all = calloc(count + bytes / CHUNK + 2, sizeof *all);
    memcpy(all, words, count * sizeof *all);
    for (; bytes > 0; bytes -= CHUNK) {
        size_t length = bytes < CHUNK ? bytes : CHUNK;
        all[count] = malloc(length + 1);
        memset(all[count], 'x', length);
        all[count++][length] = 0;
    }
    return all;
}

/* The exit code, or an error's negative number. */
static int execute(const char *how, char **all) {
    pid_t pid;
    int status = 0;
    if (strcmp(how, "spawn") == 0) {
        int error = posix_spawn(&pid, all[0], NULL, NULL, all, environ);
        if (error) return -error;
    } else if ((pid = fork()) == 0) {
        if (strcmp(how, "raw") == 0) syscall(SYS_execve, all[0], all, environ);
        else execv(all[0], all);
        _exit(128 + errno);
    }
    waitpid(pid, &status, 0);
    CHECK(WIFEXITED(status));
    status = WEXITSTATUS(status);
    return status > 128 ? 128 - status : status;
}

static long most(char **words) {
    long least = 0, beyond = 16 << 20;
    while (beyond - least > 1) {
        long middle = (least + beyond) / 2;
        if (execute("call", vector(words, middle)) == 7) least = middle;
        else beyond = middle;
    }
    return least;
}

int main(int argc, char **argv) {
    char *ends[] = {argv[0], "7", NULL};
    CHECK(argc >= 2);
    if (isdigit(argv[1][0])) return atoi(argv[1]);
    if (strcmp(argv[1], "most") == 0) {
        printf("most=%ld\n", most(ends));
    } else if (strcmp(argv[1], "with") == 0) {
        int result = execute(argv[2], vector(ends, atol(argv[3])));
        if (result < 0) puts(strerror(-result));
        else printf("%d\n", result);
    } else {
        for (long bytes = most(ends); bytes > 0; bytes -= 8) {
            char **all = vector(argv + 2, bytes);
            execv(all[0], all);
            CHECK(errno == E2BIG);
        }
    }
    return 0;
}
