// Loads the HSA runtime when it is needed, as plugins and interpreters do, and for nobody else, and sets it up: hsa_late LIBRARY
#include <dlfcn.h>
#include <stdio.h>

#include "check.h"

int main(int count, char **words)
{
    REQUIRE(count == 2);
    REQUIRE(dlsym(RTLD_DEFAULT, "hsa_init") == NULL);
    void *hsa = dlopen(words[1], RTLD_NOW | RTLD_LOCAL);
    REQUIRE(hsa);
    int (*init)(void) = (int (*)(void))dlsym(hsa, "hsa_init");
    int (*shut_down)(void) = (int (*)(void))dlsym(hsa, "hsa_shut_down");
    REQUIRE(init && shut_down);
    CHECK(init());
    CHECK(shut_down());
    return 0;
}
