// Says which libraries are there by weak references to their functions, as programs do that use a library only where it is loaded.
#include <stdio.h>

#define LOOK_FOR(name) \
    extern void name(void) __attribute__((weak))
#define SAY(name) printf("%s %s\n", #name, name ? "present" : "absent")

LOOK_FOR(MPI_Init);
LOOK_FOR(ompt_start_tool);
LOOK_FOR(GOMP_parallel);

int main(void) {
    SAY(MPI_Init);
    SAY(ompt_start_tool);
    SAY(GOMP_parallel);
    return 0;
}
