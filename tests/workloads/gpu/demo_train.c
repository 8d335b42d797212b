/* The demo's program: trains nothing, as programs do. Each step prepares a batch on the processor, copies it to a GPU, launches kernels and waits for them; now
 * and then it saves what it has. Needs the HSA runtime alone.
 *
 *     train KERNELS STEPS */
#define _GNU_SOURCE
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { GPUS = 2, KERNELS = 5, LAYERS = 6, BATCH_BYTES = 4 << 20 };
static const char *const names[KERNELS] = {"embed_tokens.kd", "gemm_forward.kd", "softmax.kd", "gemm_backward.kd", "adam_update.kd"};
enum { EMBED, FORWARD, SOFTMAX, BACKWARD, ADAM };

/* One worker: a GPU, its queue and its memory. */
struct worker {
    hsa_agent_t gpu;
    hsa_queue_t *queue;
    uint64_t kernels[KERNELS];
    hsa_amd_memory_pool_t pool;
    void *batch, *on_gpu;
    void **arguments;
    hsa_signal_t signal;
    int steps;
};

static struct worker workers[GPUS];
static int gpu_count;
static hsa_agent_t cpu;
static hsa_amd_memory_pool_t host_pool, argument_pool;
static volatile double sink;

static void check(hsa_status_t status, const char *what)
{
    if (status != HSA_STATUS_SUCCESS) {
        fprintf(stderr, "train: %s: error 0x%x\n", what, status);
        exit(1);
    }
}
#define CHECK(call) check(call, #call)

static hsa_status_t on_agent(hsa_agent_t agent, void *unused)
{
    (void)unused;
    hsa_device_type_t type;
    CHECK(hsa_agent_get_info(agent, HSA_AGENT_INFO_DEVICE, &type));
    if (type == HSA_DEVICE_TYPE_CPU)
        cpu = agent;
    else if (type == HSA_DEVICE_TYPE_GPU && gpu_count < GPUS)
        workers[gpu_count++].gpu = agent;
    return HSA_STATUS_SUCCESS;
}

static hsa_status_t on_pool(hsa_amd_memory_pool_t pool, void *of_gpu)
{
    hsa_amd_segment_t segment;
    uint32_t flags;
    CHECK(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_SEGMENT, &segment));
    if (segment != HSA_AMD_SEGMENT_GLOBAL)
        return HSA_STATUS_SUCCESS;
    CHECK(hsa_amd_memory_pool_get_info(pool, HSA_AMD_MEMORY_POOL_INFO_GLOBAL_FLAGS, &flags));
    if (of_gpu && flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_COARSE_GRAINED)
        *(hsa_amd_memory_pool_t *)of_gpu = pool;
    if (!of_gpu && flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_KERNARG_INIT)
        argument_pool = pool;
    if (!of_gpu && flags & HSA_AMD_MEMORY_POOL_GLOBAL_FLAG_FINE_GRAINED)
        host_pool = pool;
    return HSA_STATUS_SUCCESS;
}

static void set_up(struct worker *worker, const char *file)
{
    hsa_code_object_reader_t reader;
    hsa_executable_t executable;
    CHECK(hsa_amd_agent_iterate_memory_pools(worker->gpu, on_pool, &worker->pool));
    CHECK(hsa_queue_create(worker->gpu, 256, HSA_QUEUE_TYPE_MULTI, NULL, NULL, UINT32_MAX, UINT32_MAX, &worker->queue));
    CHECK(hsa_code_object_reader_create_from_file(open(file, O_RDONLY), &reader));
    CHECK(hsa_executable_create_alt(HSA_PROFILE_FULL, HSA_DEFAULT_FLOAT_ROUNDING_MODE_DEFAULT, NULL, &executable));
    CHECK(hsa_executable_load_agent_code_object(executable, worker->gpu, reader, NULL, NULL));
    CHECK(hsa_executable_freeze(executable, NULL));
    for (int i = 0; i < KERNELS; i++) {
        hsa_executable_symbol_t symbol;
        CHECK(hsa_executable_get_symbol_by_name(executable, names[i], &worker->gpu, &symbol));
        CHECK(hsa_executable_symbol_get_info(symbol, HSA_EXECUTABLE_SYMBOL_INFO_KERNEL_OBJECT, &worker->kernels[i]));
    }
    CHECK(hsa_amd_memory_pool_allocate(host_pool, BATCH_BYTES, 0, &worker->batch));
    CHECK(hsa_amd_agents_allow_access(1, &worker->gpu, NULL, worker->batch));
    CHECK(hsa_amd_memory_pool_allocate(worker->pool, BATCH_BYTES, 0, &worker->on_gpu));
    CHECK(hsa_amd_memory_pool_allocate(argument_pool, 4096, 0, (void **)&worker->arguments));
    CHECK(hsa_amd_agents_allow_access(1, &worker->gpu, NULL, worker->arguments));
    worker->arguments[0] = worker->on_gpu;
    CHECK(hsa_signal_create(1, 0, NULL, &worker->signal));
}

static void compute(double seconds)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    double end = now.tv_sec + now.tv_nsec * 1e-9 + seconds;
    do {
        for (int i = 1; i < 20000; i++)
            sink += 1.0 / i;
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    } while (now.tv_sec + now.tv_nsec * 1e-9 < end);
}

// What stands behind the last call keeps the function on the stack.
__attribute__((noinline)) static void decode_images(void)
{
    compute(0.006);
    sink += 1;
}

__attribute__((noinline)) static void augment(struct worker *worker)
{
    compute(0.003);
    memset(worker->batch, 1, BATCH_BYTES);
    sink += 1;
}

__attribute__((noinline)) static void load_batch(struct worker *worker)
{
    decode_images();
    augment(worker);
    sink += 1;
}

static void wait_for_gpu(struct worker *worker)
{
    hsa_signal_wait_scacquire(worker->signal, HSA_SIGNAL_CONDITION_LT, 1, UINT64_MAX, HSA_WAIT_STATE_BLOCKED);
    hsa_signal_store_relaxed(worker->signal, 1);
}

static void copy(struct worker *worker, void *to, hsa_agent_t to_agent, const void *from, hsa_agent_t from_agent)
{
    CHECK(hsa_amd_memory_async_copy(to, to_agent, from, from_agent, BATCH_BYTES, 0, NULL, worker->signal));
    wait_for_gpu(worker);
}

static void launch(struct worker *worker, int kernel, int is_last)
{
    hsa_queue_t *queue = worker->queue;
    uint64_t index = hsa_queue_add_write_index_screlease(queue, 1);
    while (index - hsa_queue_load_read_index_scacquire(queue) >= queue->size)
        ;
    hsa_kernel_dispatch_packet_t *packet = (hsa_kernel_dispatch_packet_t *)queue->base_address + index % queue->size;
    memset((char *)packet + 4, 0, sizeof *packet - 4);
    packet->workgroup_size_x = 256;
    packet->workgroup_size_y = packet->workgroup_size_z = 1;
    packet->grid_size_x = 1 << 16;
    packet->grid_size_y = packet->grid_size_z = 1;
    packet->kernel_object = worker->kernels[kernel];
    packet->kernarg_address = worker->arguments;
    if (is_last)
        packet->completion_signal = worker->signal;
    uint32_t header = HSA_PACKET_TYPE_KERNEL_DISPATCH << HSA_PACKET_HEADER_TYPE | 1 << HSA_PACKET_HEADER_BARRIER |
                      HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCACQUIRE_FENCE_SCOPE |
                      HSA_FENCE_SCOPE_SYSTEM << HSA_PACKET_HEADER_SCRELEASE_FENCE_SCOPE;
    header |= 1 << HSA_KERNEL_DISPATCH_PACKET_SETUP_DIMENSIONS << 16;
    __atomic_store_n((uint32_t *)packet, header, __ATOMIC_RELEASE);
    hsa_signal_store_screlease(queue->doorbell_signal, (hsa_signal_value_t)index);
}

__attribute__((noinline)) static void forward(struct worker *worker)
{
    launch(worker, EMBED, 0);
    for (int layer = 0; layer < LAYERS; layer++) {
        launch(worker, FORWARD, 0);
        launch(worker, SOFTMAX, 0);
    }
}

__attribute__((noinline)) static void backward(struct worker *worker)
{
    for (int layer = 0; layer < LAYERS; layer++)
        launch(worker, BACKWARD, 0);
    launch(worker, ADAM, 1);
    wait_for_gpu(worker);
}

__attribute__((noinline)) static void save_checkpoint(struct worker *worker)
{
    copy(worker, worker->batch, cpu, worker->on_gpu, worker->gpu);
    FILE *file = tmpfile();
    if (file) {
        fwrite(worker->batch, BATCH_BYTES, 1, file);
        fflush(file);
        fclose(file);
    }
    usleep(40000);
}

static void *train(void *of_worker)
{
    struct worker *worker = of_worker;
    for (int step = 1; step <= worker->steps; step++) {
        load_batch(worker);
        copy(worker, worker->on_gpu, worker->gpu, worker->batch, cpu);
        forward(worker);
        backward(worker);
        if (step % 25 == 0)
            save_checkpoint(worker);
    }
    return NULL;
}

int main(int count, char **words)
{
    if (count != 3) {
        fprintf(stderr, "usage: train KERNELS STEPS\n");
        return 2;
    }
    CHECK(hsa_init());
    CHECK(hsa_iterate_agents(on_agent, NULL));
    CHECK(hsa_amd_agent_iterate_memory_pools(cpu, on_pool, NULL));
    if (gpu_count == 0) {
        fprintf(stderr, "train: no GPU\n");
        return 1;
    }
    pthread_t threads[GPUS];
    for (int i = 0; i < gpu_count; i++) {
        char name[16];
        set_up(&workers[i], words[1]);
        workers[i].steps = atoi(words[2]);
        pthread_create(&threads[i], NULL, train, &workers[i]);
        snprintf(name, sizeof name, "worker %d", i);
        pthread_setname_np(threads[i], name);
    }
    for (int i = 0; i < gpu_count; i++) {
        pthread_join(threads[i], NULL);
        CHECK(hsa_signal_destroy(workers[i].signal));
        CHECK(hsa_queue_destroy(workers[i].queue));
    }
    CHECK(hsa_shut_down());
    return 0;
}
