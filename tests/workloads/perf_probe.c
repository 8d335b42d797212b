// Prints what the kernel says to perf events: NAME=0, or the number of the error, each with and without its own mode counted.
#include "work.h"
#include <errno.h>
#include <linux/perf_event.h>
#include <sys/syscall.h>

static int try_event(unsigned type, unsigned long config, int user_only)
{
    struct perf_event_attr attr = {.type = type, .size = sizeof attr, .config = config, .disabled = 1};
    attr.exclude_kernel = attr.exclude_hv = user_only;
    int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
    if (fd < 0)
        return errno;
    close(fd);
    return 0;
}

int main(void)
{
    struct { const char* name; unsigned type; unsigned long config; } events[] = {
        {"cpu-clock", 1, 0}, {"page-faults", 1, 2}, {"context-switches", 1, 3}, {"bpf-output", 1, 10},
        {"cycles", 0, 0}, {"instructions", 0, 1}, {"branch-misses", 0, 5}, {"L1-dcache-loads", 3, 0},
        {"LLC-load-misses", 3, 0x10002}, {"node-loads", 3, 6},
    };
    for (unsigned i = 0; i < sizeof events / sizeof *events; i++)
        printf("%s=%d,%d\n", events[i].name, try_event(events[i].type, events[i].config, 0),
            try_event(events[i].type, events[i].config, 1));
    return 0;
}
