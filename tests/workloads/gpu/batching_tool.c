// A tool of the HSA runtime's. It stands between queues and the tools after it, and hands kernels on eight at a time, as runtimes since
// 7.2 do with the packets of one doorbell; older ones hand each on by itself. For programs that submit kernels by eights.
#include <hsa/hsa.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 8, PACKET_BYTES = 64, KERNEL = 2 };

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

struct collector {
    handler_t handler;
    void *data;
    uint64_t first, count;
    __attribute__((aligned(64))) char packets[BATCH * PACKET_BYTES];
};

static intercept_t real_register;

static void collect(const void *packets, uint64_t count, uint64_t first, void *data, writer_t writer)
{
    struct collector *own = data;
    for (uint64_t i = 0; i < count; i++) {
        const char *packet = (const char *)packets + i * PACKET_BYTES;
        if (own->count == 0)
            own->first = first + i;
        memcpy(own->packets + own->count++ * PACKET_BYTES, packet, PACKET_BYTES);
        // What is no kernel comes by itself.
        if (own->count == BATCH || (uint8_t)packet[0] != KERNEL) {
            own->handler(own->packets, own->count, own->first, own->data, writer);
            own->count = 0;
        }
    }
}

static hsa_status_t register_in_front(hsa_queue_t *queue, handler_t handler, void *data)
{
    struct collector *own = aligned_alloc(64, (sizeof *own + 63) / 64 * 64);
    *own = (struct collector){.handler = handler, .data = data};
    return real_register(queue, collect, own);
}

__attribute__((visibility("default"))) int OnLoad(struct root *root, uint64_t version, uint64_t failed, const char *const *names)
{
    // hsa_amd_queue_intercept_register: later runtimes have two functions more in front of it.
    size_t offset = root->amd->bytes <= 424 ? 304 : 320;
    intercept_t *place = (intercept_t *)((char *)root->amd + offset);
    real_register = *place;
    *place = register_in_front;
    return 1;
}

__attribute__((visibility("default"))) void OnUnload(void) {}
