// Takes the place of HIP's tracer, as libroctracer64 does: by dlsym on HIP's library. Arguments: before or after, of the first kernels.
// Prints how many kernels it was told of.
#include <dlfcn.h>
#include <hip/hip_runtime.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "check.h"

__global__ void first(int *data) { data[threadIdx.x] += 1; }
__global__ void second(int *data) { data[threadIdx.x] *= 3; }

static std::atomic<int> kernels{0};

// Calls are refused, operations are wanted: data is null when HIP asks, a record when it tells.
static int on_event(uint32_t domain, uint32_t op, void *data)
{
    if (domain != 2)
        return 1;
    if (reinterpret_cast<uintptr_t>(data) > 1 && op == 0)
        kernels++;
    return 0;
}

// HIP's library, whatever its version.
static void *loaded_hip()
{
    for (const char *name : {"libamdhip64.so.5", "libamdhip64.so.6", "libamdhip64.so.7"})
        if (void *library = dlopen(name, RTLD_LAZY | RTLD_NOLOAD))
            return library;
    return nullptr;
}

static void take()
{
    void *library = loaded_hip();
    auto take = reinterpret_cast<void (*)(int (*)(uint32_t, uint32_t, void *))>(dlsym(library, "hipRegisterTracerCallback"));
    HIP(!take);
    take(on_event);
}

int main(int argc, char **argv)
{
    bool before = argc > 1 && !strcmp(argv[1], "before");
    if (before)
        take();
    int *data = nullptr;
    HIP(hipMalloc(&data, 4096));
    for (int i = 0; i < 10; i++)
        hipLaunchKernelGGL(first, dim3(1), dim3(64), 0, nullptr, data);
    HIP(hipDeviceSynchronize());
    // HIP 6 tells a moment after the synchronisation.
    for (int i = 0; before && i < 10000 && kernels < 10; i++)
        usleep(1000);
    if (!before)
        take();
    for (int i = 0; i < 10; i++)
        hipLaunchKernelGGL(second, dim3(1), dim3(64), 0, nullptr, data);
    HIP(hipDeviceSynchronize());
    for (int i = 0; i < 10000 && kernels < (before ? 20 : 10); i++)
        usleep(1000);
    printf("told=%d\n", kernels.load());
    return 0;
}
