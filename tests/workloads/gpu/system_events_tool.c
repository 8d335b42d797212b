// A tool of the HSA runtime's that stands between it and the handlers of system events which later tools register. When the program shuts
// the runtime down, it calls them with the kinds of events that the variable SYSTEM_EVENTS lists ("0 3"), as ROCr does: 0 is a memory
// fault, 1 a failure of the hardware, 2 a memory error. Since 7.2 there is 3, at every shutdown, of which the other fields are unused.
#include <hsa/hsa.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct table {
    uint32_t major, bytes, step, reserved;
};
struct root {
    struct table head;
    struct table *core, *amd;
};
struct event {
    uint32_t kind, reserved;
    uint64_t agent, address;
    uint32_t reason;
};

typedef hsa_status_t (*handler_t)(const struct event *event, void *data);
typedef hsa_status_t (*register_handler_t)(handler_t handler, void *data);
typedef hsa_status_t (*shut_down_t)(void);

static register_handler_t real_register;
static shut_down_t real_shut_down;
static handler_t handlers[8];
static void *handlers_data[8];
static int count;

static hsa_status_t register_handler(handler_t handler, void *data)
{
    if (count < 8) {
        handlers[count] = handler;
        handlers_data[count++] = data;
    }
    return real_register(handler, data);
}

static hsa_status_t shut_down(void)
{
    char *kinds = getenv("SYSTEM_EVENTS");
    for (char *end; kinds && *kinds; kinds = end) {
        struct event event;
        // What is unused holds what the stack held.
        memset(&event, 0xa5, sizeof event);
        event.kind = strtoul(kinds, &end, 10);
        if (end == kinds)
            break;
        if (event.kind < 3) {
            event.agent = 0;
            event.address = 0x7000 + event.kind;
        }
        for (int i = 0; i < count; i++)
            printf("event %u answered %#x\n", event.kind, handlers[i](&event, handlers_data[i]));
    }
    return real_shut_down();
}

static void *replace(struct table *table, size_t offset, void *ours)
{
    void **place = (void **)((char *)table + offset);
    void *before = *place;
    *place = ours;
    return before;
}

__attribute__((visibility("default"))) int OnLoad(struct root *root, uint64_t version, uint64_t failed, const char *const *names)
{
    // hsa_amd_register_system_event_handler: later runtimes have two functions more in front of it.
    real_register = replace(root->amd, root->amd->bytes <= 424 ? 288 : 304, register_handler);
    real_shut_down = replace(root->core, 24, shut_down);
    return 1;
}

__attribute__((visibility("default"))) void OnUnload(void) {}
