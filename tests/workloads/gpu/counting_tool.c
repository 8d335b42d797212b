// A tool of the HSA runtime's that counts the kernels of the program's queues, and prints `tool_queues=` and `tool_kernels=` when the program
// shuts the runtime down. The variable COUNTING_TOOL says how it makes queues:
//   own     intercept queues, by the function that it found when it was loaded, as profilers do (the default)
//   live    the same by the function that is in the table when a queue is made
//   plain   it only counts queues, which the function that it found makes
#include <hsa/hsa.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PACKET_BYTES = 64, KERNEL = 2 };

typedef void (*error_t)(hsa_status_t status, hsa_queue_t *queue, void *data);
typedef hsa_status_t (*create_t)(hsa_agent_t agent, uint32_t size, hsa_queue_type32_t type, error_t callback, void *data,
                                 uint32_t private_bytes, uint32_t group_bytes, hsa_queue_t **queue);
typedef void (*writer_t)(const void *packets, uint64_t count);
typedef void (*handler_t)(const void *packets, uint64_t count, uint64_t first, void *data, writer_t writer);
typedef hsa_status_t (*intercept_t)(hsa_queue_t *queue, handler_t handler, void *data);

struct table {
    uint32_t major, bytes, step, reserved;
};
struct root {
    struct table head;
    struct table *core, *amd;
};

static struct root *live;
static create_t found_create, found_intercept_create;
static intercept_t found_register;
static hsa_status_t (*found_shut_down)(void);
static const char *mode;
static int queues;
static uint64_t kernels;

static void *at(struct table *table, size_t offset) { return *(void **)((char *)table + offset); }

// Later runtimes have two functions more in front of these.
static size_t of_amd(size_t offset) { return live->amd->bytes <= 424 ? offset : offset + 16; }

static void count(const void *packets, uint64_t number, uint64_t first, void *data, writer_t writer)
{
    for (uint64_t i = 0; i < number; i++)
        if (((const uint8_t *)packets)[i * PACKET_BYTES] == KERNEL)
            __atomic_fetch_add(&kernels, 1, __ATOMIC_RELAXED);
    writer(packets, number);
}

static hsa_status_t create(hsa_agent_t agent, uint32_t size, hsa_queue_type32_t type, error_t callback, void *data, uint32_t private_bytes,
                           uint32_t group_bytes, hsa_queue_t **queue)
{
    __atomic_fetch_add(&queues, 1, __ATOMIC_RELAXED);
    int is_plain = !strcmp(mode, "plain"), is_live = !strcmp(mode, "live");
    create_t make = is_plain ? found_create : is_live ? at(live->amd, of_amd(296)) : found_intercept_create;
    hsa_status_t status = make(agent, size, type, callback, data, private_bytes, group_bytes, queue);
    if (status != HSA_STATUS_SUCCESS || is_plain)
        return status;
    return found_register(*queue, count, NULL);
}

static hsa_status_t shut_down(void)
{
    printf("tool_queues=%d\ntool_kernels=%llu\n", queues, (unsigned long long)kernels);
    fflush(stdout);
    return found_shut_down();
}

__attribute__((visibility("default"))) int OnLoad(struct root *root, uint64_t version, uint64_t failed, const char *const *names)
{
    live = root;
    mode = getenv("COUNTING_TOOL");
    mode = mode ? mode : "own";
    found_create = at(root->core, 72);
    found_shut_down = at(root->core, 24);
    found_intercept_create = at(root->amd, of_amd(296));
    found_register = at(root->amd, of_amd(304));
    *(create_t *)((char *)root->core + 72) = create;
    *(hsa_status_t (**)(void))((char *)root->core + 24) = shut_down;
    return 1;
}

__attribute__((visibility("default"))) void OnUnload(void) {}
