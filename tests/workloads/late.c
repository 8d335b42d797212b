/* Burns before and after it has asked for its end: late SECONDS. Prints the CPU time since `main` began. */
#include "work.h"

static double seconds, begun;

static void last(void) {
    burn(seconds);
    printf("cpu=%.6f\n", process_cpu() - begun);
    fflush(stdout);
}

int main(int argc, char **argv) {
    begun = process_cpu();
    seconds = argc > 1 ? atof(argv[1]) : 0.1;
    CHECK(at_quick_exit(last) == 0);
    burn(seconds);
    quick_exit(0);
}
