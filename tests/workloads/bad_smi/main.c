/* Burns S seconds of CPU time and prints `done`: bad_smi --seconds S. Beside it lies plugin.so, which says it is librocm_smi64. */
#include "work.h"

int main(int argc, char **argv) {
    burn(option(argc, argv, "--seconds", 1));
    puts("done");
    return 0;
}
