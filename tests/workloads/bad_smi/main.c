/* Burns CPU time until FILE is there, and then S seconds of it, and prints `done`: bad_smi --until FILE --seconds S. Beside it lies plugin.so, which
 * says it is librocm_smi64. */
#include "work.h"

int main(int argc, char **argv) {
    const char *file = word_option(argc, argv, "--until", "/");
    /* Who waits in vain ends all the same. */
    while (access(file, F_OK) != 0 && process_cpu() < 60) burn(0.01);
    burn(option(argc, argv, "--seconds", 1));
    puts("done");
    return 0;
}
