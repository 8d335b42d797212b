// Uses the GPUs through the HSA runtime alone and checks everything that comes back.
//
// Arguments: code object, number of dispatches; a third one: looks at the doorbell alone. Prints one line per dispatch with a signal:
//   dispatch <gpu> <start tick> <end tick> <start ns> <end ns>
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

enum { MAX_GPUS = 16 };
static hsa_agent_t gpus[MAX_GPUS], cpu;
static int gpu_count;
static hsa_amd_memory_pool_t device_pools[MAX_GPUS], host_pool, kernarg_pool;

static hsa_status_t on_agent(hsa_agent_t agent, void *unused)
{
    hsa_device_type_t type;
    CHECK(hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type));
    if (type == HSA_DEVICE_TYPE_GPU)
        gpus[gpu_count++] = agent;
    else
        cpu = agent;
    return HSA_STATUS_SUCCESS;
}

static hsa_status_t on_pool(hsa_amd_memory_pool_t pool, void *place)
{
    hsa_amd_segment_t segment;
    uint32_t flags;
    CHECK(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment));
    if (segment != HSA_AMD_SEGMENT_GLOBAL)
        return HSA_STATUS_SUCCESS;
    CHECK(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS, &flags));
    if (place == &host_pool) {
        if (flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_KERNARG_INIT)
            kernarg_pool = pool;
        if (flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED)
            host_pool = pool;
    } else if (flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED) {
        *(hsa_amd_memory_pool_t *)place = pool;
    }
    return HSA_STATUS_SUCCESS;
}

static void wait_for(hsa_signal_t signal)
{
    hsa_signal_value_t value =
        hsa_signal_wait_scacquire(signal, HSA_SIGNAL_CONDITION_LT, 1, UINT64_MAX, HSA_WAIT_STATE_BLOCKED);
    REQUIRE(value == 0);
}

// Puts a packet into the queue and tells its index, for the doorbell.
static uint64_t put(hsa_queue_t *queue, const void *packet, uint16_t header)
{
    uint64_t index = hsa_queue_add_write_index_screlease(queue, 1);
    while (index - hsa_queue_load_read_index_scacquire(queue) >= queue->size)
        ;
    char *slot = (char *)queue->base_address + 64 * (index % queue->size);
    memcpy(slot + 2, (const char *)packet + 2, 62);
    __atomic_store_n((uint16_t *)slot, header, __ATOMIC_RELEASE);
    return index;
}

static void submit(hsa_queue_t *queue, const void *packet, uint16_t header)
{
    hsa_signal_store_screlease(queue->doorbell_signal, (hsa_signal_value_t)put(queue, packet, header));
}

static uint16_t header(int type, int barrier)
{
    return (uint16_t)(type << HSA_PACKET_HEADER_TYPE | barrier << HSA_PACKET_HEADER_BARRIER |
                      HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCACQUIRE_FENCE_SCOPE |
                      HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCRELEASE_FENCE_SCOPE);
}

static hsa_signal_t new_signal(void)
{
    hsa_signal_t signal;
    CHECK(hsa_signal_create(1, 0, NULL, &signal));
    return signal;
}

static uint64_t load_kernel(hsa_agent_t agent, const char *file, const char *name)
{
    hsa_code_object_reader_t reader;
    hsa_executable_t executable;
    hsa_executable_symbol_t symbol;
    uint64_t object;
    int fd = open(file, O_RDONLY);
    REQUIRE(fd >= 0);
    CHECK(hsa_code_object_reader_create_from_file(fd, &reader));
    CHECK(hsa_executable_create_alt(HSA_PROFILE_FULL, HSA_DEFAULT_FLOAT_ROUNDING_MODE_DEFAULT, NULL, &executable));
    CHECK(hsa_executable_load_agent_code_object(executable, agent, reader, NULL, NULL));
    CHECK(hsa_executable_freeze(executable, NULL));
    CHECK(hsa_executable_get_symbol_by_name(executable, name, &agent, &symbol));
    CHECK(hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT, &object));
    close(fd);
    return object;
}

// Dispatches, each with a signal of its own; then all at once behind a barrier.
static void check_dispatches(int gpu, const char *file, int count)
{
    hsa_queue_t *queue;
    CHECK(hsa_queue_create(gpus[gpu], 256, HSA_QUEUE_TYPE_MULTI, NULL, NULL, UINT32_MAX, UINT32_MAX, &queue));
    CHECK(hsa_amd_profiling_set_profiler_enabled(queue, 1));
    uint64_t objects[2] = {load_kernel(gpus[gpu], file, "short_kernel.kd"), load_kernel(gpus[gpu], file, "long_kernel.kd")};
    hsa_signal_t signals[64];
    for (int i = 0; i < 64; i++)
        signals[i] = new_signal();
    for (int first = 0; first < count; first += 64) {
        int batch = count - first < 64 ? count - first : 64;
        for (int i = 0; i < batch; i++) {
            hsa_signal_store_relaxed(signals[i], 1);
            hsa_kernel_dispatch_packet_t packet = {.setup = 1,
                                                   .workgroup_size_x = 64,
                                                   .workgroup_size_y = 1,
                                                   .workgroup_size_z = 1,
                                                   .grid_size_x = 64 * (1 + i % 4),
                                                   .grid_size_y = 1,
                                                   .grid_size_z = 1,
                                                   .kernel_object = objects[i % 2],
                                                   .completion_signal = signals[i]};
            submit(queue, &packet, header(HSA_PACKET_TYPE_KERNEL_DISPATCH, i % 3 == 0));
        }
        for (int i = 0; i < batch; i++) {
            wait_for(signals[i]);
            const uint64_t *ticks = (const uint64_t *)(signals[i].handle + 32);
            hsa_amd_profiling_dispatch_time_t time;
            CHECK(hsa_amd_profiling_get_dispatch_time(gpus[gpu], signals[i], &time));
            printf("dispatch %d %lu %lu %lu %lu\n", gpu, ticks[0], ticks[1], time.start, time.end);
        }
    }
    // A barrier on signals that the host completes, and one of which a single one is enough.
    hsa_signal_t gates[2] = {new_signal(), new_signal()}, all = new_signal(), any = new_signal();
    hsa_barrier_or_packet_t either = {.dep_signal = {gates[0], gates[1]}, .completion_signal = any};
    submit(queue, &either, header(HSA_PACKET_TYPE_BARRIER_OR, 0));
    hsa_barrier_and_packet_t both = {.dep_signal = {gates[0], gates[1]}, .completion_signal = all};
    submit(queue, &both, header(HSA_PACKET_TYPE_BARRIER_AND, 1));
    REQUIRE(hsa_signal_wait_scacquire(any, HSA_SIGNAL_CONDITION_LT, 1, 1000000, HSA_WAIT_STATE_BLOCKED) == 1);
    hsa_signal_store_screlease(gates[1], 0);
    wait_for(any);
    REQUIRE(hsa_signal_load_scacquire(all) == 1);
    hsa_signal_store_screlease(gates[0], 0);
    wait_for(all);
    for (int i = 0; i < 64; i++)
        CHECK(hsa_signal_destroy(signals[i]));
    CHECK(hsa_queue_destroy(queue));
}

static uint64_t boottime_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void print_submission(hsa_signal_t done, uint64_t submitted_ns)
{
    wait_for(done);
    printf("submitted %lu %lu\n", submitted_ns, *(const uint64_t *)(done.handle + 32));
    hsa_signal_store_relaxed(done, 1);
}

// When kernels were submitted, and when they started: `submitted <ns> <start tick>`.
static void check_doorbell(int gpu, const char *file, int count)
{
    hsa_queue_t *queue;
    CHECK(hsa_queue_create(gpus[gpu], 256, HSA_QUEUE_TYPE_MULTI, NULL, NULL, UINT32_MAX, UINT32_MAX, &queue));
    CHECK(hsa_amd_profiling_set_profiler_enabled(queue, 1));
    hsa_signal_t done = new_signal(), next_done = new_signal();
    hsa_kernel_dispatch_packet_t packet = {.setup = 1,
                                           .workgroup_size_x = 64,
                                           .workgroup_size_y = 1,
                                           .workgroup_size_z = 1,
                                           .grid_size_x = 64,
                                           .grid_size_y = 1,
                                           .grid_size_z = 1,
                                           .kernel_object = load_kernel(gpus[gpu], file, "short_kernel.kd"),
                                           .completion_signal = done};
    uint16_t kernel = header(HSA_PACKET_TYPE_KERNEL_DISPATCH, 1);
    // It lies in its queue for a while before the doorbell rings.
    uint64_t index = put(queue, &packet, kernel);
    usleep(300000);
    REQUIRE(hsa_signal_load_scacquire(done) == 1);
    uint64_t submitted_ns = boottime_ns();
    hsa_signal_store_screlease(queue->doorbell_signal, (hsa_signal_value_t)index);
    print_submission(done, submitted_ns);
    // One after the other, each at some moment of the GPU's.
    for (int i = 0; i < count; i++) {
        index = put(queue, &packet, kernel);
        submitted_ns = boottime_ns();
        hsa_signal_store_screlease(queue->doorbell_signal, (hsa_signal_value_t)index);
        print_submission(done, submitted_ns);
    }
    // Two producers: the one with the later place is first, and rings for both.
    index = hsa_queue_add_write_index_screlease(queue, 1);
    packet.completion_signal = next_done;
    submit(queue, &packet, kernel);
    usleep(100000);
    packet.completion_signal = done;
    char *slot = (char *)queue->base_address + 64 * (index % queue->size);
    memcpy(slot + 2, (const char *)&packet + 2, 62);
    submitted_ns = boottime_ns();
    __atomic_store_n((uint16_t *)slot, kernel, __ATOMIC_RELEASE);
    print_submission(done, submitted_ns);
    print_submission(next_done, submitted_ns);
    CHECK(hsa_queue_destroy(queue));
}

static void fill(uint8_t *bytes, size_t count, unsigned seed)
{
    for (size_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)((i * 2654435761u + seed) >> 7);
}

static void copy(void *to, hsa_agent_t to_agent, const void *from, hsa_agent_t from_agent, size_t bytes)
{
    hsa_signal_t done = new_signal();
    CHECK(hsa_amd_memory_async_copy(to, to_agent, from, from_agent, bytes, 0, NULL, done));
    wait_for(done);
    hsa_amd_profiling_async_copy_time_t time;
    CHECK(hsa_amd_profiling_get_async_copy_time(done, &time));
    REQUIRE(time.end > time.start);
    CHECK(hsa_signal_destroy(done));
}

// Host to device, within it, and back; with memory of the pool and with the process's own.
static void check_copies(int gpu, size_t bytes)
{
    uint8_t *source, *target, *device[2], *own = malloc(bytes), *locked;
    CHECK(hsa_amd_memory_pool_allocate(host_pool, bytes, 0, (void **)&source));
    CHECK(hsa_amd_memory_pool_allocate(host_pool, bytes, 0, (void **)&target));
    for (int i = 0; i < 2; i++)
        CHECK(hsa_amd_memory_pool_allocate(device_pools[gpu], bytes, 0, (void **)&device[i]));
    CHECK(hsa_amd_agents_allow_access(1, &gpus[gpu], NULL, source));
    CHECK(hsa_amd_agents_allow_access(1, &gpus[gpu], NULL, target));
    fill(source, bytes, (unsigned)gpu);
    memset(target, 0, bytes);
    copy(device[0], gpus[gpu], source, cpu, bytes);
    copy(device[1], gpus[gpu], device[0], gpus[gpu], bytes);
    copy(target, cpu, device[1], gpus[gpu], bytes);
    REQUIRE(memcmp(source, target, bytes) == 0);
    memset(own, 0, bytes);
    CHECK(hsa_amd_memory_lock(own, bytes, &gpus[gpu], 1, (void **)&locked));
    copy(locked, cpu, device[0], gpus[gpu], bytes);
    CHECK(hsa_amd_memory_unlock(own));
    REQUIRE(memcmp(source, own, bytes) == 0);
    CHECK(hsa_amd_memory_fill(device[1], 0x01020304, bytes / 4));
    CHECK(hsa_memory_copy(target, device[1], bytes));
    for (size_t i = 0; i < bytes / 4; i++)
        REQUIRE(((uint32_t *)target)[i] == 0x01020304);
    if (gpu_count > 1) {
        int peer = (gpu + 1) % gpu_count;
        uint8_t *there;
        CHECK(hsa_amd_memory_pool_allocate(device_pools[peer], bytes, 0, (void **)&there));
        CHECK(hsa_amd_agents_allow_access(1, &gpus[gpu], NULL, there));
        copy(there, gpus[peer], device[0], gpus[gpu], bytes);
        memset(target, 0, bytes);
        CHECK(hsa_memory_copy(target, there, bytes));
        REQUIRE(memcmp(source, target, bytes) == 0);
        CHECK(hsa_amd_memory_pool_free(there));
    }
    for (int i = 0; i < 2; i++)
        CHECK(hsa_amd_memory_pool_free(device[i]));
    CHECK(hsa_amd_memory_pool_free(source));
    CHECK(hsa_amd_memory_pool_free(target));
    free(own);
}

int main(int argc, char **argv)
{
    REQUIRE(argc == 3 || argc == 4);
    CHECK(hsa_init());
    CHECK(hsa_iterate_agents(on_agent, NULL));
    REQUIRE(gpu_count > 0);
    CHECK(hsa_amd_agent_iterate_memory_pools(cpu, on_pool, &host_pool));
    CHECK(hsa_amd_profiling_async_copy_enable(true));
    if (argc == 4) {
        check_doorbell(0, argv[1], atoi(argv[2]));
        CHECK(hsa_shut_down());
        return 0;
    }
    static const size_t sizes[] = {4, 4096, 1000004, 9 << 20};
    for (int gpu = 0; gpu < gpu_count; gpu++) {
        CHECK(hsa_amd_agent_iterate_memory_pools(gpus[gpu], on_pool, &device_pools[gpu]));
    }
    for (int gpu = 0; gpu < gpu_count; gpu++) {
        check_dispatches(gpu, argv[1], atoi(argv[2]));
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
            check_copies(gpu, sizes[i]);
    }
    CHECK(hsa_shut_down());
    printf("gpus=%d\n", gpu_count);
    return 0;
}
