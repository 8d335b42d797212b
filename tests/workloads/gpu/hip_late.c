// Loads HIP when it is needed, as plugins and interpreters do, and for nobody else; launches kernels of a code object that it loads itself.
//
//     hip_late LIBRARY CODE-OBJECT
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#include "check.h"

static void *hip;

static void *function(const char *name)
{
    void *found = dlsym(hip, name);
    if (!found) {
        fprintf(stderr, "no %s\n", name);
        exit(1);
    }
    return found;
}

int main(int count, char **words)
{
    if (count != 3 || !(hip = dlopen(words[1], RTLD_NOW | RTLD_LOCAL))) {
        fprintf(stderr, "%s\n", count == 3 ? dlerror() : "hip_late LIBRARY CODE-OBJECT");
        return 1;
    }
    int (*allocate)(void **, size_t) = function("hipMalloc");
    int (*load)(void **, const char *) = function("hipModuleLoad");
    int (*find)(void **, void *, const char *) = function("hipModuleGetFunction");
    int (*launch)(void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **) =
        function("hipModuleLaunchKernel");
    int (*synchronize)(void) = function("hipDeviceSynchronize");
    void *data, *module, *kernel;
    CHECK(allocate(&data, 4096));
    CHECK(load(&module, words[2]));
    CHECK(find(&kernel, module, "short_kernel"));
    void *parameters[] = {&data};
    for (unsigned i = 1; i <= 100; i++)
        CHECK(launch(kernel, i, 1, 1, 64, 1, 1, 0, NULL, parameters, NULL));
    CHECK(synchronize());
    return 0;
}
