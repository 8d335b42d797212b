// A tool of rocprofiler-sdk's, as far as rocprofiler-register looks at it: a library that exports `rocprofiler_configure`.
#include <stddef.h>
#include <stdint.h>

struct configured {
    size_t size;
    int (*initialize)(void (*finish)(void), void *data);
    void (*finalize)(void *data);
    void *data;
};

static int initialize(void (*finish)(void), void *data)
{
    (void)finish, (void)data;
    return 0;
}

__attribute__((visibility("default"))) struct configured *rocprofiler_configure(uint32_t version, const char *text, uint32_t priority,
                                                                                void *client)
{
    (void)version, (void)text, (void)priority, (void)client;
    static struct configured tool = {sizeof tool, initialize, NULL, NULL};
    return &tool;
}
