#define _GNU_SOURCE
#include <dlfcn.h>

int answer(void)
{
    int (*next)(void) = (int (*)(void))dlsym(RTLD_NEXT, "answer");
    return next ? 1 + next() : -1;
}
