// Loads code objects as Triton does, from memory that is given back at once, and launches a kernel of each. Arguments: launches of each, then
// CODE_OBJECT:KERNEL.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <vector>

#include "check.h"

int main(int argc, char **argv)
{
    REQUIRE(argc > 2);
    int launches = atoi(argv[1]);
    void *data = nullptr;
    HIP(hipMalloc(&data, 1 << 20));
    // As many arguments as any of the kernels has.
    void *arguments[16];
    for (void *&argument : arguments)
        argument = &data;
    std::vector<hipFunction_t> kernels;
    for (int at = 2; at < argc; at++) {
        char *name = strrchr(argv[at], ':');
        REQUIRE(name != nullptr);
        *name++ = 0;
        std::ifstream file(argv[at], std::ios::binary);
        std::vector<char> image{std::istreambuf_iterator<char>(file), {}};
        REQUIRE(!image.empty());
        hipModule_t module;
        hipFunction_t kernel;
        HIP(hipModuleLoadData(&module, image.data()));
        memset(image.data(), 0, image.size());
        HIP(hipModuleGetFunction(&kernel, module, name));
        kernels.push_back(kernel);
    }
    for (int round = 0; round < launches; round++) {
        for (hipFunction_t kernel : kernels)
            HIP(hipModuleLaunchKernel(kernel, 1, 1, 1, 64, 1, 1, 0, nullptr, arguments, nullptr));
        HIP(hipDeviceSynchronize());
    }
    printf("launches=%d\n", launches * (int)kernels.size());
    return 0;
}
