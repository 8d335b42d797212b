/* A library starts a thread before main: early [--seconds S]. */
#include "work.h"

void early_join(void);

int main(int argc, char **argv) {
    burn(option(argc, argv, "--seconds", 0.3));
    early_join();
    printf("cpu=%.6f\n", process_cpu());
    return 0;
}
