// How many dispatches the simulated GPU executes: arguments are code object, dispatches, and seconds of rest.
//
// Prints the rate, and the processor time of this process (producer and simulated GPU) per dispatch and at rest.
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

static hsa_agent_t gpu;

static hsa_status_t on_agent(hsa_agent_t agent, void *unused)
{
    hsa_device_type_t type;
    CHECK(hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type));
    if (type == HSA_DEVICE_TYPE_GPU)
        gpu = agent;
    return HSA_STATUS_SUCCESS;
}

int main(int argc, char **argv)
{
    hsa_code_object_reader_t reader;
    hsa_executable_t executable;
    hsa_executable_symbol_t symbol;
    hsa_queue_t *queue;
    hsa_signal_t done;
    uint64_t object;
    if (argc != 4)
        return 2;
    uint64_t count = strtoull(argv[2], NULL, 10);
    CHECK(hsa_init());
    CHECK(hsa_iterate_agents(on_agent, NULL));
    CHECK(hsa_code_object_reader_create_from_file(open(argv[1], O_RDONLY), &reader));
    CHECK(hsa_executable_create_alt(HSA_PROFILE_FULL, HSA_DEFAULT_FLOAT_ROUNDING_MODE_DEFAULT, NULL, &executable));
    CHECK(hsa_executable_load_agent_code_object(executable, gpu, reader, NULL, NULL));
    CHECK(hsa_executable_freeze(executable, NULL));
    CHECK(hsa_executable_get_symbol_by_name(executable, "short_kernel.kd", &gpu, &symbol));
    CHECK(hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT, &object));
    CHECK(hsa_queue_create(gpu, 16384, HSA_QUEUE_TYPE_SINGLE, NULL, NULL, UINT32_MAX, UINT32_MAX, &queue));
    CHECK(hsa_amd_profiling_set_profiler_enabled(queue, 1));
    CHECK(hsa_signal_create((hsa_signal_value_t)count, 0, NULL, &done));
    hsa_kernel_dispatch_packet_t packet = {.setup = 1,
                                           .workgroup_size_x = 64,
                                           .workgroup_size_y = 1,
                                           .workgroup_size_z = 1,
                                           .grid_size_x = 64,
                                           .grid_size_y = 1,
                                           .grid_size_z = 1,
                                           .kernel_object = object,
                                           .completion_signal = done};
    const uint16_t header = HSA_PACKET_TYPE_KERNEL_DISPATCH << HSA_PACKET_HEADER_TYPE | 1 << HSA_PACKET_HEADER_BARRIER;
    double start = now_ns(CLOCK_MONOTONIC), busy = now_ns(CLOCK_PROCESS_CPUTIME_ID), own = now_ns(CLOCK_THREAD_CPUTIME_ID);
    for (uint64_t index = 0; index < count; index++) {
        while (index - hsa_queue_load_read_index_scacquire(queue) >= queue->size)
            usleep(1000);
        char *slot = (char *)queue->base_address + 64 * (index % queue->size);
        memcpy(slot + 2, (const char *)&packet + 2, 62);
        __atomic_store_n((uint16_t *)slot, header, __ATOMIC_RELEASE);
        hsa_queue_store_write_index_screlease(queue, index + 1);
        hsa_signal_store_screlease(queue->doorbell_signal, (hsa_signal_value_t)index);
    }
    while (hsa_signal_wait_scacquire(done, HSA_SIGNAL_CONDITION_LT, 1, UINT64_MAX, HSA_WAIT_STATE_BLOCKED) != 0)
        ;
    double wall = now_ns(CLOCK_MONOTONIC) - start;
    busy = now_ns(CLOCK_PROCESS_CPUTIME_ID) - busy;
    own = now_ns(CLOCK_THREAD_CPUTIME_ID) - own;
    printf("dispatches_per_s=%.0f\ncpu_ns_per_dispatch=%.0f\nproducer_ns_per_dispatch=%.0f\n", (double)count / wall * 1e9,
           busy / (double)count, own / (double)count);
    double rest = atof(argv[3]);
    usleep(200000);
    busy = now_ns(CLOCK_PROCESS_CPUTIME_ID);
    usleep((useconds_t)(rest * 1e6));
    busy = now_ns(CLOCK_PROCESS_CPUTIME_ID) - busy;
    printf("idle_percent=%.2f\n", rest > 0 ? 100 * busy / (rest * 1e9) : 0);
    CHECK(hsa_shut_down());
    return 0;
}
