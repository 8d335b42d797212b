// Gives names to GPUs and streams through roctx, as its users do: before the first kernel and after it. Needs two GPUs.
#include <dlfcn.h>
#include <hip/hip_runtime.h>
#include <hsa/hsa.h>

#include <cstdio>
#include <cstdlib>

#include "check.h"

__global__ void spin(int *data) { data[threadIdx.x] += 1; }

template <class Function> static Function find(const char *name)
{
    return reinterpret_cast<Function>(dlsym(RTLD_DEFAULT, name));
}

static hsa_agent_t last_gpu;

static hsa_status_t on_agent(hsa_agent_t agent, void *)
{
    hsa_device_type_t type;
    auto info = find<hsa_status_t (*)(hsa_agent_t, hsa_agent_info_t, void *)>("hsa_agent_get_info");
    if (info(agent, HSA_AGENT_INFO_DEVICE, &type) == HSA_STATUS_SUCCESS && type == HSA_DEVICE_TYPE_GPU)
        last_gpu = agent;
    return HSA_STATUS_SUCCESS;
}

static void launch(hipStream_t stream)
{
    int *data = nullptr;
    HIP(hipMalloc(&data, 4096));
    hipLaunchKernelGGL(spin, dim3(1), dim3(64), 0, stream, data);
    HIP(hipStreamSynchronize(stream));
}

int main()
{
    auto name_device = find<int (*)(const char *, int)>("roctxNameHipDevice");
    auto name_stream = find<int (*)(const char *, hipStream_t)>("roctxNameHipStream");
    auto name_agent = find<int (*)(const char *, const hsa_agent_t *)>("roctxNameHsaAgent");
    hipStream_t early, late, nameless, other;
    HIP(hipSetDevice(0));
    for (hipStream_t *stream : {&early, &late, &nameless})
        HIP(hipStreamCreateWithFlags(stream, hipStreamNonBlocking));
    if (name_device && name_stream) {
        CHECK(name_device("the trainer", 0));
        CHECK(name_stream("named early", early));
    }
    for (hipStream_t stream : {early, late, nameless})
        launch(stream);
    HIP(hipSetDevice(1));
    HIP(hipStreamCreateWithFlags(&other, hipStreamNonBlocking));
    launch(other);
    auto iterate = find<hsa_status_t (*)(hsa_status_t (*)(hsa_agent_t, void *), void *)>("hsa_iterate_agents");
    CHECK(iterate(on_agent, nullptr));
    if (name_agent && name_stream) {
        CHECK(name_stream("named late", late));
        CHECK(name_agent("the helper", &last_gpu));
    }
    launch(other);
    HIP(hipSetDevice(0));
    launch(late);
    printf("named=%d\n", name_device && name_stream && name_agent);
    return 0;
}
