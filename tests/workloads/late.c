/* Burns before and after the end of `main`: late SECONDS. What runs after it was registered first. */
#include "work.h"

static double seconds;

static void last(void) {
    burn(seconds);
    printf("cpu=%.6f\n", process_cpu());
    fflush(stdout);
}

/* The earliest constructors register the latest destructors: behind those of libraries that were loaded with us. */
static __attribute__((destructor(101))) void behind_everything(void) { last(); }

int main(int argc, char **argv) {
    seconds = argc > 1 ? atof(argv[1]) : 0.1;
    burn(seconds);
    return 0;
}
