/*
 * Starts a program in a given way, waits for it, and ends as it ended.
 *
 *   launches WAY PROGRAM [ARGUMENTS, at most three]
 *
 * WAY is a function of the C library, `vfork` (execve after it), `number` (syscall(SYS_execve)), or `raw` (the instruction itself).
 * The functions that search get the program's file name and a PATH with its folder. Prints `ended=CODE` at the end.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static int is(const char *way, const char *name) { return strcmp(way, name) == 0; }

#if defined(__x86_64__)
static void raw(const char *path, char **arguments, char **environment)
{
    long result;
    __asm__ volatile("syscall"
                     : "=a"(result)
                     : "a"(SYS_execve), "D"(path), "S"(arguments), "d"(environment)
                     : "rcx", "r11", "memory");
}
#else
static void raw(const char *path, char **arguments, char **environment) { execve(path, arguments, environment); }
#endif

static void become(const char *way, const char *path, const char *name, char **arguments)
{
    char *a = arguments[1], *b = a ? arguments[2] : NULL, *c = b ? arguments[3] : NULL;
    if (is(way, "execve") || is(way, "vfork"))
        execve(path, arguments, environ);
    else if (is(way, "execv"))
        execv(path, arguments);
    else if (is(way, "execvp"))
        execvp(name, arguments);
    else if (is(way, "execvpe"))
        execvpe(name, arguments, environ);
    else if (is(way, "execl"))
        execl(path, arguments[0], a, b, c, (char *)NULL);
    else if (is(way, "execl8")) /* More arguments than registers. */
        execl(path, arguments[0], "1", "2", "3", "4", "5", "6", "7", "8", (char *)NULL);
    else if (is(way, "execlp"))
        execlp(name, arguments[0], a, b, c, (char *)NULL);
    else if (is(way, "execle"))
        execle(path, arguments[0], a, b, c, (char *)NULL, environ);
    else if (is(way, "execle8"))
        execle(path, arguments[0], "1", "2", "3", "4", "5", "6", "7", "8", (char *)NULL, environ);
    else if (is(way, "fexecve"))
        fexecve(open(path, O_RDONLY | O_CLOEXEC), arguments, environ);
    else if (is(way, "execveat"))
        syscall(SYS_execveat, AT_FDCWD, path, arguments, environ, 0);
    else if (is(way, "execveat-empty"))
        syscall(SYS_execveat, open(path, O_PATH | O_CLOEXEC), "", arguments, environ, AT_EMPTY_PATH);
    else if (is(way, "number"))
        syscall(SYS_execve, path, arguments, environ);
    else if (is(way, "raw"))
        raw(path, arguments, environ);
    perror(way);
    _exit(126);
}

int main(int count, char **words)
{
    if (count < 3 || count > 6)
        return 2;
    const char *way = words[1], *path = words[2];
    char folder[4096], file[4096], line[8192];
    snprintf(folder, sizeof folder, "%s", path);
    snprintf(file, sizeof file, "%s", path);
    snprintf(line, sizeof line, "/nowhere:%s:%s", dirname(folder), getenv("PATH"));
    setenv("PATH", line, 1);
    const char *name = basename(file);
    char **arguments = words + 2;
    int status = 0;
    pid_t child = -1;
    if (is(way, "system") || is(way, "popen")) {
        line[0] = 0;
        for (int n = 2; n < count; n++)
            snprintf(line + strlen(line), sizeof line - strlen(line), "'%s' ", words[n]);
        fflush(stdout);
        if (is(way, "system")) {
            status = system(line);
        } else {
            FILE *pipe = popen(line, "r");
            for (int byte; pipe && (byte = getc(pipe)) != EOF;)
                putchar(byte);
            status = pipe ? pclose(pipe) : -1;
        }
    } else if (is(way, "posix_spawn") || is(way, "posix_spawnp")) {
        int error = is(way, "posix_spawn") ? posix_spawn(&child, path, NULL, NULL, arguments, environ)
                                           : posix_spawnp(&child, name, NULL, NULL, arguments, environ);
        if (error) {
            printf("error=%s\n", strerror(error));
            return 126;
        }
    } else if (is(way, "vfork")) {
        child = vfork();
        if (child == 0)
            become(way, path, name, arguments);
    } else {
        child = fork();
        if (child == 0)
            become(way, path, name, arguments);
    }
    if (child > 0)
        waitpid(child, &status, 0);
    printf("ended=%d\n", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    return 0;
}
