// Makes calls of a HIP that is a stand-in (standin_hip.c), in the order of the arguments: hip_standin LIBRARY WORD...
// Words: launch exc drv no-config batch batch3d peer3d fill8 fill16 fill32 tomorrow copy-tomorrow ask-tomorrow sync, and of one with a profiler
// wait-profiler copy set graph, and exec, which fails, each with a number of
// times behind a colon: launch:100.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"

typedef struct { uint32_t x, y, z; } dim3_t;
typedef struct { dim3_t grid, block; size_t shared; void *stream, *attributes; unsigned count; } config_t;

static void *hip;

static void *function(const char *name)
{
    void *found = dlsym(hip, name);
    REQUIRE(found);
    return found;
}

static void kernel(void) {}

static void *const STREAM = (void *)0x5150;

static void fill(const char *name, int is_async)
{
    if (is_async) {
        int (*call)(void *, size_t, unsigned, size_t, size_t, void *) = function(name);
        CHECK(call((void *)0x1000, 64, 7, 10, 3, STREAM));
    } else {
        int (*call)(void *, size_t, unsigned, size_t, size_t) = function(name);
        CHECK(call((void *)0x1000, 64, 7, 10, 3));
    }
}

// Not inlined: it is looked for in launch stacks.
__attribute__((noinline)) void act(const char *word)
{
    static config_t config = {{7, 8, 9}, {64, 2, 1}, 256, (void *)0x5150, NULL, 0};
    if (!strcmp(word, "launch")) {
        int (*launch)(const void *, dim3_t, dim3_t, void **, size_t, void *) = function("hipLaunchKernel");
        CHECK(launch((void *)kernel, (dim3_t){3, 4, 5}, (dim3_t){64, 1, 1}, NULL, 0, STREAM));
    } else if (!strcmp(word, "exc")) {
        int (*launch)(const config_t *, const void *, void **) = function("hipLaunchKernelExC");
        CHECK(launch(&config, (void *)kernel, NULL));
    } else if (!strcmp(word, "drv")) {
        int (*launch)(const config_t *, void *, void **, void **) = function("hipDrvLaunchKernelEx");
        CHECK(launch(&config, (void *)0x7777, NULL, NULL));
    } else if (!strcmp(word, "no-config")) {
        int (*launch)(const config_t *, const void *, void **) = function("hipLaunchKernelExC");
        REQUIRE(launch(NULL, (void *)kernel, NULL) != 0);
    } else if (!strcmp(word, "batch")) {
        void *to[3] = {0}, *from[3] = {0};
        size_t sizes[3] = {100, 200, 300};
        int (*copy)(void **, void **, size_t *, size_t, void *, size_t *, size_t, size_t *, void *) = function("hipMemcpyBatchAsync");
        CHECK(copy(to, from, sizes, 3, NULL, NULL, 0, NULL, STREAM));
    } else if (!strcmp(word, "batch3d")) {
        struct { char ends[80]; size_t extent[3]; char kind[8]; } list[2] = {{.extent = {10, 2, 3}}, {.extent = {5, 5, 5}}};
        int (*copy)(size_t, void *, size_t *, unsigned long long, void *) = function("hipMemcpy3DBatchAsync");
        CHECK(copy(2, list, NULL, 0, STREAM));
    } else if (!strcmp(word, "peer3d")) {
        struct { char before[144]; size_t extent[3]; } copy = {.extent = {100, 4, 2}};
        int (*now)(void *) = function("hipMemcpy3DPeer");
        int (*later)(void *, void *) = function("hipMemcpy3DPeerAsync");
        CHECK(now(&copy));
        CHECK(later(&copy, STREAM));
    } else if (!strcmp(word, "exec")) {
        char *none[] = {NULL};
        CHECK(!execv("/nowhere", none));
    } else if (!strcmp(word, "wait-profiler")) {
        void (*wait)(void) = (void (*)(void))function("standin_wait");
        wait();
    } else if (!strcmp(word, "copy")) {
        int (*copy)(void *, const void *, size_t, int, void *) = function("hipMemcpyAsync");
        CHECK(copy((void *)0x2000, (void *)0x1000, 300, 1, STREAM));
    } else if (!strcmp(word, "set")) {
        int (*set)(void *, int, size_t, void *) = function("hipMemsetAsync");
        CHECK(set((void *)0x2000, 0, 500, STREAM));
    } else if (!strcmp(word, "graph")) {
        int (*launch)(void *, void *) = function("hipGraphLaunch");
        CHECK(launch((void *)0x6000, STREAM));
    } else if (!strncmp(word, "fill", 4)) {
        char name[32];
        for (int is_async = 0; is_async < 2; is_async++) {
            snprintf(name, sizeof name, "hipMemsetD2D%s%s", word + 4, is_async ? "Async" : "");
            fill(name, is_async);
        }
    } else {
        int (*call)(void) = function(!strcmp(word, "tomorrow")        ? "hipLaunchKernelOfTomorrow"
                                     : !strcmp(word, "copy-tomorrow") ? "hipMemcpyOfTomorrow"
                                     : !strcmp(word, "ask-tomorrow")  ? "hipAskOfTomorrow"
                                                                      : "hipDeviceSynchronize");
        CHECK(call());
    }
}

int main(int count, char **words)
{
    REQUIRE(count > 2);
    hip = dlopen(words[1], RTLD_NOW | RTLD_GLOBAL);
    if (!hip)
        fprintf(stderr, "%s\n", dlerror());
    REQUIRE(hip);
    for (int i = 2; i < count; i++) {
        char word[64];
        int times = 1;
        sscanf(words[i], "%63[^:]:%d", word, &times);
        for (; times > 0; times--)
            act(word);
    }
    puts("done");
    return 0;
}
