/* Work and sleep in turns: naps [--turns N]. Each turn burns 60 ms and sleeps 200 ms. */
#include "work.h"

int main(int argc, char **argv) {
    int turns = (int)option(argc, argv, "--turns", 4);
    for (int turn = 0; turn < turns; turn++) {
        burn(0.06);
        usleep(200000);
    }
    burn(0.06);
    printf("cpu=%.6f\n", process_cpu());
    return 0;
}
