/* Burns before and after it has asked for its end: late SECONDS. Prints its number and its CPU time. */
#include "work.h"

static double seconds;

static void last(void) {
    burn(seconds);
    printf("pid=%d cpu=%.6f\n", getpid(), process_cpu());
    fflush(stdout);
}

int main(int argc, char **argv) {
    seconds = argc > 1 ? atof(argv[1]) : 0.1;
    CHECK(at_quick_exit(last) == 0);
    burn(seconds);
    quick_exit(0);
}
