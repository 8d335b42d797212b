// Calls a function of a library so many times.
//
// probe COUNT
#include "work.h"

int probe_tick(int number);

int main(int argc, char **argv)
{
    int count = argc > 1 ? atoi(argv[1]) : 1;
    for (int i = 0; i < count; i++)
        CHECK(probe_tick(i) == i + 1);
    return 0;
}
