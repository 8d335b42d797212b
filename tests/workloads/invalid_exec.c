/*
 * Calls execve with what the kernel refuses, and with what it accepts though it is odd. Prints the errors. Argument: a program to
 * execute at the end, with variables that end where their memory ends.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void try(const char *what, const char *path, char **arguments, char **environment)
{
    errno = 0;
    int result = execve(path, arguments, environment);
    printf("%s=%d,%s\n", what, result, strerror(errno));
}

int main(int count, char **words)
{
    if (count < 2)
        return 2;
    char *nowhere = (char *)8, *arguments[] = {words[1], NULL};
    char *broken[] = {(char *)"A=1", nowhere, NULL};
    try("path", nowhere, arguments, environ);
    try("null", NULL, arguments, environ);
    try("arguments", words[1], (char **)nowhere, environ);
    try("argument", words[1], broken, environ);
    try("environment", words[1], arguments, (char **)nowhere);
    try("variable", words[1], arguments, broken);
    try("folder", "/", arguments, environ);
    try("missing", "/no/such/program", arguments, environ);
    fflush(stdout);
    for (int without = 0; without < 2; without++) {
        pid_t child = fork();
        if (child == 0) {
            char *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            munmap(pages + 4096, 4096);
            /* A vector, and a string, that end at the last byte. */
            char *text = pages + 4096 - 4, **vector = (char **)(pages + 2048 - 16);
            memcpy(text, "A=1", 4);
            vector[0] = text;
            vector[1] = NULL;
            execve(words[1], arguments, without ? NULL : vector);
            _exit(9);
        }
        int status;
        waitpid(child, &status, 0);
        printf("ended=%d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -1);
    }
    return 0;
}
