// Preloaded in front of the HSA runtime, it makes any release of it behave as AMD's own builds do where a tool has registered with
// rocprofiler-register, as PyTorch's profiler has: HSA_TOOLS_LIB is not looked at, unless HSA_TOOLS_ROCPROFILER_V1_TOOLS is on.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

static int is_on(const char *name)
{
    const char *value = getenv(name);
    static const char *const off[] = {"", "0", "off", "false", "no", "n", "f"};
    for (size_t i = 0; value && i < sizeof off / sizeof *off; i++)
        if (!strcmp(value, off[i]))
            return 0;
    return value != NULL;
}

__attribute__((visibility("default"))) int hsa_init(void)
{
    int (*real)(void) = (int (*)(void))dlsym(RTLD_NEXT, "hsa_init");
    if (!is_on("HSA_TOOLS_ROCPROFILER_V1_TOOLS"))
        unsetenv("HSA_TOOLS_LIB");
    return real ? real() : 0x100b;
}
