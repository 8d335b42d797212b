// Sets up the HSA runtime and takes on its own user and group, which all threads of the process have to do: prints how long that took, `took_ms=N`.
#include <grp.h>
#include <hsa/hsa.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

static double now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1e3 + now.tv_nsec / 1e6;
}

int main(void)
{
    CHECK(hsa_init());
    double begin_ms = now_ms();
    REQUIRE(setgid(getgid()) == 0);
    REQUIRE(setuid(getuid()) == 0);
    printf("took_ms=%.0f\n", now_ms() - begin_ms);
    CHECK(hsa_shut_down());
    return 0;
}
