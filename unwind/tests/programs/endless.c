// A program of the oracle's corpus: works in the C library and in frames of all kinds until it is killed.
#include <alloca.h>
#include <math.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NOINLINE __attribute__((noinline))

static volatile double sink;

static int ascending(const void *a, const void *b) {
    double one = *(const double *)a, other = *(const double *)b;
    return (one > other) - (one < other);
}

static double NOINLINE realigned(int n) {
    double block[16] __attribute__((aligned(64)));
    double *room = alloca(n * sizeof *room);
    for (int i = 0; i < n; i++) room[i] = sin(i * 0.3) * n + block[i % 16] * 0;
    for (int i = 0; i < 16; i++) block[i] = room[i % n] * 0.5;
    qsort(room, n, sizeof *room, ascending);
    return room[n / 2] + block[3];
}

static double NOINLINE variable(int n) {
    double array[n];
    for (int i = 0; i < n; i++) array[i] = pow(i + 0.5, 1.3);
    return array[n - 1] + realigned(n);
}

static double NOINLINE recursive(int depth, int n) {
    if (depth == 0) return variable(n);
    double value = recursive(depth - 1, n);
    return value + exp(-fabs(value));
}

static int NOINLINE text(int n) {
    char line[200];
    regex_t pattern;
    regmatch_t match;
    snprintf(line, sizeof line, "%d %.4f %e %s", n, n / 7.0, n * 1e10, "some text with words");
    if (regcomp(&pattern, "([a-z]+) +with", REG_EXTENDED) != 0) abort();
    int found = regexec(&pattern, line, 1, &match, 0);
    regfree(&pattern);
    time_t now = time(NULL);
    struct tm parts;
    localtime_r(&now, &parts);
    strftime(line, sizeof line, "%A %d %B", &parts);
    char *copy = strdup(line);
    long number = strtol("12345", NULL, 10) + (long)strtod("1.5e3", NULL) + (long)strlen(copy);
    free(copy);
    return found + (int)number;
}

int main(void) {
    for (int turn = 0;; turn++) {
        sink += recursive(3 + turn % 20, 40 + turn % 90);
        sink += text(turn);
        void *memory = malloc(100 + turn % 100000);
        memset(memory, turn, 100);
        free(memory);
    }
}
