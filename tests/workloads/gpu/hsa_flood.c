// Many kernels at once, each thread on a queue of its own, with signals used as programs use them.
//
// Arguments: code object, mode, threads, kernels of each thread, signals in use at a time. Modes:
//   none      kernels without signals; a barrier with one at the end
//   reuse     a few signals, each set to 1 again when its kernel is done
//   shared    one signal for all kernels, which counts down
//   batch     eight packets with each doorbell; every fourth kernel has one of a few signals
//   many      a thousand packets with each doorbell
//   crowd     all threads on one queue, fifty packets with each doorbell
//   scratch   as reuse, and every third kernel needs more scratch memory than the one before
//   hang      as none, but nobody waits: the program ends while kernels run
// Prints `kernels=N` when all are submitted, and `done=N` when they are complete.
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

enum { MOST_THREADS = 16, MOST_SIGNALS = 64 };
static hsa_agent_t gpus[16];
static int gpu_count, count, signals_in_use;
static uint64_t objects[16];
static const char *mode;
static hsa_queue_t *crowded;

static hsa_status_t on_agent(hsa_agent_t agent, void *unused)
{
    hsa_device_type_t type;
    CHECK(hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type));
    if (type == HSA_DEVICE_TYPE_GPU)
        gpus[gpu_count++] = agent;
    return HSA_STATUS_SUCCESS;
}

static void load(int gpu, const char *file)
{
    hsa_code_object_reader_t reader;
    hsa_executable_t executable;
    hsa_executable_symbol_t symbol;
    CHECK(hsa_code_object_reader_create_from_file(open(file, O_RDONLY), &reader));
    CHECK(hsa_executable_create_alt(HSA_PROFILE_FULL, HSA_DEFAULT_FLOAT_ROUNDING_MODE_DEFAULT, NULL, &executable));
    CHECK(hsa_executable_load_agent_code_object(executable, gpus[gpu], reader, NULL, NULL));
    CHECK(hsa_executable_freeze(executable, NULL));
    CHECK(hsa_executable_get_symbol_by_name(executable, "short_kernel.kd", &gpus[gpu], &symbol));
    CHECK(hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT, &objects[gpu]));
}

static uint16_t header_of(int type, int barrier)
{
    return (uint16_t)(type << HSA_PACKET_HEADER_TYPE | barrier << HSA_PACKET_HEADER_BARRIER |
                      HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCACQUIRE_FENCE_SCOPE |
                      HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCRELEASE_FENCE_SCOPE);
}

static void submit(hsa_queue_t *queue, const void *packet, int type, int barrier)
{
    uint16_t header = header_of(type, barrier);
    uint64_t index = hsa_queue_add_write_index_screlease(queue, 1);
    while (index - hsa_queue_load_read_index_scacquire(queue) >= queue->size)
        usleep(20);
    char *slot = (char *)queue->base_address + 64 * (index % queue->size);
    memcpy(slot + 2, (const char *)packet + 2, 62);
    __atomic_store_n((uint16_t *)slot, header, __ATOMIC_RELEASE);
    hsa_signal_store_screlease(queue->doorbell_signal, (hsa_signal_value_t)index);
}

// Takes the places of so many packets, and rings once when the last is written.
static void submit_in_batch(hsa_queue_t *queue, const void *packet, int number, int batch)
{
    static __thread uint64_t first;
    if (number % batch == 0) {
        first = hsa_queue_add_write_index_screlease(queue, (uint64_t)batch);
        while (first + (uint64_t)batch - hsa_queue_load_read_index_scacquire(queue) > queue->size)
            usleep(20);
    }
    uint64_t index = first + (uint64_t)(number % batch);
    char *slot = (char *)queue->base_address + 64 * (index % queue->size);
    memcpy(slot + 2, (const char *)packet + 2, 62);
    __atomic_store_n((uint16_t *)slot, header_of(HSA_PACKET_TYPE_KERNEL_DISPATCH, 0), __ATOMIC_RELEASE);
    if (number % batch == batch - 1)
        hsa_signal_store_screlease(queue->doorbell_signal, (hsa_signal_value_t)index);
}

static void wait_for(hsa_signal_t signal)
{
    while (hsa_signal_wait_scacquire(signal, HSA_SIGNAL_CONDITION_LT, 1, UINT64_MAX, HSA_WAIT_STATE_BLOCKED) > 0)
        ;
}

static void *flood(void *argument)
{
    int thread = (int)(intptr_t)argument, gpu = thread % gpu_count;
    hsa_queue_t *queue = crowded;
    hsa_signal_t signals[MOST_SIGNALS], last;
    int many = !strcmp(mode, "many"), crowd = queue != NULL;
    if (crowd)
        gpu = 0;
    else
        CHECK(hsa_queue_create(gpus[gpu], many ? 2048 : 256, HSA_QUEUE_TYPE_SINGLE, NULL, NULL, UINT32_MAX, UINT32_MAX, &queue));
    CHECK(hsa_signal_create(1, 0, NULL, &last));
    int shared = !strcmp(mode, "shared"), batch = !strcmp(mode, "batch"), scratch = !strcmp(mode, "scratch");
    int reuse = !strcmp(mode, "reuse") || scratch;
    for (int i = 0; i < signals_in_use; i++)
        CHECK(hsa_signal_create(shared ? count : 0, 0, NULL, &signals[i]));
    for (int i = 0; i < count; i++) {
        hsa_kernel_dispatch_packet_t packet = {.setup = 1,
                                               .workgroup_size_x = 64,
                                               .workgroup_size_y = 1,
                                               .workgroup_size_z = 1,
                                               .grid_size_x = 64 * (1 + (uint32_t)(i % 4)),
                                               .grid_size_y = 1,
                                               .grid_size_z = 1,
                                               .kernel_object = objects[gpu]};
        if (shared)
            packet.completion_signal = signals[0];
        if (scratch)
            packet.private_segment_size = i < 3 ? 0 : 1024u * (uint32_t)(2 + i / 3);  // 2048 every queue has
        if (reuse || (batch && i % 4 == 3)) {
            packet.completion_signal = signals[i % signals_in_use];
            wait_for(packet.completion_signal);
            hsa_signal_store_relaxed(packet.completion_signal, 1);
        }
        if (batch)
            submit_in_batch(queue, &packet, i, 8);
        else if (many || crowd)
            submit_in_batch(queue, &packet, i, many ? 1000 : 50);
        else
            submit(queue, &packet, HSA_PACKET_TYPE_KERNEL_DISPATCH, 0);
    }
    if (!strcmp(mode, "hang"))
        return NULL;
    hsa_barrier_and_packet_t barrier = {.completion_signal = last};
    submit(queue, &barrier, HSA_PACKET_TYPE_BARRIER_AND, 1);
    wait_for(last);
    for (int i = 0; i < signals_in_use; i++) {
        wait_for(signals[i]);
        CHECK(hsa_signal_destroy(signals[i]));
    }
    CHECK(hsa_signal_destroy(last));
    if (!crowd)
        CHECK(hsa_queue_destroy(queue));
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc != 6)
        return 2;
    mode = argv[2];
    int threads = atoi(argv[3]);
    count = atoi(argv[4]);
    signals_in_use = atoi(argv[5]);
    if (threads > MOST_THREADS || signals_in_use > MOST_SIGNALS)
        return 2;
    CHECK(hsa_init());
    CHECK(hsa_iterate_agents(on_agent, NULL));
    for (int gpu = 0; gpu < gpu_count; gpu++)
        load(gpu, argv[1]);
    if (!strcmp(mode, "crowd"))
        CHECK(hsa_queue_create(gpus[0], 1024, HSA_QUEUE_TYPE_MULTI, NULL, NULL, UINT32_MAX, UINT32_MAX, &crowded));
    pthread_t handles[MOST_THREADS];
    for (int i = 0; i < threads; i++)
        pthread_create(&handles[i], NULL, flood, (void *)(intptr_t)i);
    for (int i = 0; i < threads; i++)
        pthread_join(handles[i], NULL);
    printf("kernels=%d\n", threads * count);
    if (!strcmp(mode, "hang"))
        return 0;
    printf("done=%d\n", threads * count);
    if (crowded)
        CHECK(hsa_queue_destroy(crowded));
    CHECK(hsa_shut_down());
    return 0;
}
