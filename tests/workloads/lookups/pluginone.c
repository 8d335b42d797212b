#define _GNU_SOURCE
#include <dlfcn.h>

int ncclGroupStart(void)
{
    return 11;
}

static int marks;

void roctxMarkA(const char *message)
{
    (void)message;
    marks++;
}

// Libraries mark their own calls.
int ncclGroupEnd(void)
{
    roctxMarkA("by the library itself");
    return 11 + marks;
}

int only_in_plugin(void)
{
    return 13;
}

int ask_inside(void)
{
    int (*found)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "only_in_plugin");
    return found ? found() : -1;
}

int ask_next(void)
{
    int (*found)(void) = (int (*)(void))dlsym(RTLD_NEXT, "only_in_plugin");
    return found ? found() : -1;
}
