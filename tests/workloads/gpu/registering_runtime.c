// Preloaded, it makes any release of the HSA runtime behave as AMD's own builds do, with rocprofiler-register and rocprofiler-sdk beside it:
// where a library of the process exports `rocprofiler_configure`, or ROCP_TOOL_LIBRARIES names one, these tools see the runtime's table
// before all others, each kernel gets a signal of the SDK's and a barrier behind it completes the program's, and HSA_TOOLS_LIB is not looked
// at, unless HSA_TOOLS_ROCPROFILER_V1_TOOLS is on. Prints at the end `tool_configured=`, tools, and `tool_kernels=`, kernels that were told.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <hsa/hsa.h>
#include <hsa/hsa_ext_amd.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_PACKETS = 1024, CREATE_QUEUE = 72, CREATE_INTERCEPTED = 296, INTERCEPT = 304, COMPLETION_SIGNAL = 56 };

typedef union {
    uint16_t header;
    char bytes[64];
} packet_t;
struct table {
    uint32_t major, bytes, step, reserved;
};
struct root {
    struct table head;
    struct table *core, *amd;
};
typedef void (*error_t)(hsa_status_t status, hsa_queue_t *queue, void *data);
typedef hsa_status_t (*create_t)(hsa_agent_t agent, uint32_t size, hsa_queue_type32_t type, error_t callback, void *data,
                                 uint32_t private_bytes, uint32_t group_bytes, hsa_queue_t **queue);
typedef void (*writer_t)(const void *packets, uint64_t count);
typedef void (*handler_t)(const void *packets, uint64_t count, uint64_t first, void *data, writer_t writer);
struct configured {
    size_t size;
    int (*initialize)(void (*finish)(void), void *data);
    void (*finalize)(void *data);
    void *data;
};
typedef struct configured *(*configure_t)(uint32_t version, const char *text, uint32_t priority, void *client);

static create_t make_intercepted;
static hsa_status_t (*intercept)(hsa_queue_t *queue, handler_t handler, void *data);
static int tools;
static uint64_t submitted, told;

static int is_on(const char *name)
{
    const char *value = getenv(name);
    static const char *const off[] = {"", "0", "off", "false", "no", "n", "f"};
    for (size_t i = 0; value && i < sizeof off / sizeof *off; i++)
        if (!strcmp(value, off[i]))
            return 0;
    return value != NULL;
}

static const char *listed_tools(void)
{
    const char *list = getenv("ROCP_TOOL_LIBRARIES");
    return list && *list ? list : NULL;
}

// What the runtime decides when it has tried to register.
__attribute__((visibility("default"))) hsa_status_t hsa_init(void)
{
    hsa_status_t (*real)(void) = (hsa_status_t(*)(void))dlsym(RTLD_NEXT, "hsa_init");
    static int is_prepared;
    if (!is_prepared && (listed_tools() || dlsym(RTLD_DEFAULT, "rocprofiler_configure"))) {
        const char *others = is_on("HSA_TOOLS_ROCPROFILER_V1_TOOLS") ? getenv("HSA_TOOLS_LIB") : NULL;
        Dl_info self;
        char *all = NULL;
        if (!dladdr((void *)is_on, &self) || asprintf(&all, "%s %s", self.dli_fname, others ? others : "") < 0)
            abort();
        setenv("HSA_TOOLS_LIB", all, 1);
        free(all);
    }
    is_prepared = 1;
    return real ? real() : HSA_STATUS_ERROR_NOT_INITIALIZED;
}

static bool on_end(hsa_signal_value_t value, void *signal)
{
    (void)value;
    hsa_signal_destroy((hsa_signal_t){(uint64_t)signal});
    __atomic_fetch_add(&told, 1, __ATOMIC_RELEASE);
    return false;
}

static void on_packets(const void *packets, uint64_t number, uint64_t first, void *data, writer_t writer)
{
    (void)first, (void)data;
    packet_t changed[MOST_PACKETS];
    uint64_t count = 0;
    for (uint64_t i = 0; i < number; i++) {
        packet_t packet = ((const packet_t *)packets)[i];
        if ((packet.header & 255) != HSA_PACKET_TYPE_KERNEL_DISPATCH || count + 2 > MOST_PACKETS) {
            changed[count++] = packet;
            continue;
        }
        hsa_signal_t before, own;
        memcpy(&before, packet.bytes + COMPLETION_SIGNAL, sizeof before);
        if (hsa_signal_create(1, 0, NULL, &own) != HSA_STATUS_SUCCESS)
            abort();
        __atomic_fetch_add(&submitted, 1, __ATOMIC_RELAXED);
        hsa_amd_signal_async_handler(own, HSA_SIGNAL_CONDITION_LT, 1, on_end, (void *)own.handle);
        memcpy(packet.bytes + COMPLETION_SIGNAL, &own, sizeof own);
        changed[count++] = packet;
        if (before.handle) {
            hsa_barrier_and_packet_t barrier = {.header = HSA_PACKET_TYPE_BARRIER_AND | 1 << HSA_PACKET_HEADER_BARRIER,
                                                .completion_signal = before};
            memcpy(&changed[count++], &barrier, sizeof barrier);
        }
    }
    writer(changed, count);
}

static hsa_status_t create_queue(hsa_agent_t agent, uint32_t size, hsa_queue_type32_t type, error_t callback, void *data,
                                 uint32_t private_bytes, uint32_t group_bytes, hsa_queue_t **queue)
{
    hsa_status_t status = make_intercepted(agent, size, type, callback, data, private_bytes, group_bytes, queue);
    return status == HSA_STATUS_SUCCESS ? intercept(*queue, on_packets, NULL) : status;
}

static void configure(void *found)
{
    struct configured *tool = found ? ((configure_t)found)(0, "stand-in", tools, NULL) : NULL;
    if (tool && tool->initialize && tool->initialize(NULL, tool->data) == 0)
        tools++;
}

__attribute__((visibility("default"))) bool OnLoad(struct root *root, uint64_t version, uint64_t failed, const char *const *names)
{
    (void)version, (void)failed, (void)names;
    // Later runtimes have two functions more in front of these.
    size_t more = root->amd->bytes <= 424 ? 0 : 16;
    make_intercepted = *(create_t *)((char *)root->amd + CREATE_INTERCEPTED + more);
    memcpy(&intercept, (char *)root->amd + INTERCEPT + more, sizeof intercept);
    configure(dlsym(RTLD_DEFAULT, "rocprofiler_configure"));
    char *list = listed_tools() ? strdup(listed_tools()) : NULL, *rest = NULL;
    for (char *name = list ? strtok_r(list, ":", &rest) : NULL; name; name = strtok_r(NULL, ":", &rest)) {
        void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
        configure(library ? dlsym(library, "rocprofiler_configure") : NULL);
    }
    free(list);
    *(create_t *)((char *)root->core + CREATE_QUEUE) = create_queue;
    return true;
}

__attribute__((visibility("default"))) void OnUnload(void) {}

__attribute__((destructor)) static void end(void)
{
    if (tools == 0)
        return;
    // The runtime calls the handlers a moment after the program may go on.
    for (int i = 0; i < 2000 && __atomic_load_n(&told, __ATOMIC_ACQUIRE) < submitted; i++)
        usleep(1000);
    printf("tool_configured=%d\ntool_kernels=%llu\n", tools, (unsigned long long)told);
    fflush(stdout);
}
