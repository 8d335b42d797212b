// Copies, each with a signal of its own that is set anew as soon as the copy is complete, and then neither used nor destroyed.
//
// Argument: number of copies. Prints `copies=N`.
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "check.h"

enum { BYTES = 4096 };
static hsa_agent_t gpu, cpu;

static hsa_status_t on_agent(hsa_agent_t agent, void *unused)
{
    hsa_device_type_t type;
    CHECK(hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type));
    if (type == HSA_DEVICE_TYPE_GPU)
        gpu = agent;
    else
        cpu = agent;
    return HSA_STATUS_SUCCESS;
}

static hsa_status_t on_pool(hsa_amd_memory_pool_t pool, void *place)
{
    hsa_amd_segment_t segment;
    bool allowed;
    CHECK(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment));
    CHECK(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_RUNTIME_ALLOC_ALLOWED, &allowed));
    if (segment == HSA_AMD_SEGMENT_GLOBAL && allowed)
        *(hsa_amd_memory_pool_t *)place = pool;
    return HSA_STATUS_SUCCESS;
}

int main(int count, char **words)
{
    hsa_amd_memory_pool_t host_pool, gpu_pool;
    void *from, *to;
    int copies = count > 1 ? atoi(words[1]) : 100;
    CHECK(hsa_init());
    CHECK(hsa_iterate_agents(on_agent, NULL));
    CHECK(hsa_amd_agent_iterate_memory_pools(cpu, on_pool, &host_pool));
    CHECK(hsa_amd_agent_iterate_memory_pools(gpu, on_pool, &gpu_pool));
    CHECK(hsa_amd_memory_pool_allocate(host_pool, BYTES, 0, &from));
    CHECK(hsa_amd_agents_allow_access(1, &gpu, NULL, from));
    CHECK(hsa_amd_memory_pool_allocate(gpu_pool, BYTES, 0, &to));
    for (int i = 0; i < copies; i++) {
        hsa_signal_t signal;
        CHECK(hsa_signal_create(1, 0, NULL, &signal));
        CHECK(hsa_amd_memory_async_copy(to, gpu, from, cpu, BYTES, 0, NULL, signal));
        // Without a sleep: nobody else looks at the signal in between.
        hsa_signal_wait_scacquire(signal, HSA_SIGNAL_CONDITION_LT, 1, UINT64_MAX, HSA_WAIT_STATE_ACTIVE);
        hsa_signal_store_relaxed(signal, 1);
    }
    printf("copies=%d\n", copies);
    fflush(stdout);
    return 0;
}
