// A stand-in for HIP's library: it does nothing, and reports calls and operations to a tracer as HIP 7.2.4 does (layouts by its headers).
// So a tracer can be tried on versions and builds of HIP that are not here. Variables:
//   STANDIN_VERSION   what it says that it is: 70253211 is 7.2.53211 (the default)
//   STANDIN_PLACE     where the tracer's functions are in the record of a call: 1536 by default
//   STANDIN_DIRTY     words of the record that hold something else when the tracer is asked about a call, as in builds without stack
//                     protectors: numbers and ranges, as "0 5 20-30". (It is built without them itself.)
// Compiled with NO_TRACER it has no place for a tracer; with PROFILER it has a profiler of its own, as HIP 7.14 (layouts by hip_profiler_ext.h 0.1.0), with
// CHUNK records in a chunk; with LATE_CHUNKS as well, full ones are handed out by a thread of its own while the list is asked for.
#include <pthread.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { CALLS = 3, OPERATIONS = 2, WORDS = 512, MOST_OPERATIONS = 4096 };
enum { DISPATCH = 0, COPY = 1, KERNEL = 0x11f0, COPY_BUFFER = 0x11f5, FILL_BUFFER = 0x1207 };

typedef int (*callback_t)(uint32_t domain, uint32_t op, void *data);
typedef void (*phase_t)(uint32_t op, const void *data);
typedef struct { uint32_t x, y, z; } dim3_t;
typedef struct { dim3_t grid, block; size_t shared; void *stream, *attributes; unsigned count; } config_t;

static callback_t callback;
static _Thread_local uint64_t correlation;
static size_t place = 1536;
static int version = 70253211;
static char dirty[WORDS];
static pthread_once_t once = PTHREAD_ONCE_INIT;

extern int hsa_init(void);

static void set_up(void)
{
    char *value = getenv("STANDIN_VERSION");
    version = value ? atoi(value) : version;
    value = getenv("STANDIN_PLACE");
    place = value ? strtoul(value, NULL, 10) : place;
    for (value = getenv("STANDIN_DIRTY"); value && *value;) {
        unsigned long first = strtoul(value, &value, 10), last = *value == '-' ? strtoul(value + 1, &value, 10) : first;
        for (; first <= last && first < WORDS; first++)
            dirty[first] = 1;
        value += strspn(value, " ");
    }
    if (hsa_init() != 0)
        abort();
}

#define NAMES(name) \
    name(79, hipGetDeviceCount) name(107, hipLaunchKernel) name(108, hipMalloc) name(341, hipDriverGetVersion) \
    name(342, hipRuntimeGetVersion) name(77, hipDeviceSynchronize) name(419, hipLaunchKernelExC) name(420, hipDrvLaunchKernelEx) \
    name(422, hipMemsetD2D16) name(423, hipMemsetD2D16Async) name(424, hipMemsetD2D32) name(425, hipMemsetD2D32Async) \
    name(426, hipMemsetD2D8) name(427, hipMemsetD2D8Async) name(431, hipMemcpy3DBatchAsync) name(432, hipMemcpy3DPeer) \
    name(433, hipMemcpy3DPeerAsync) name(434, hipMemcpyBatchAsync) name(460, hipLaunchKernelOfTomorrow) \
    name(461, hipMemcpyOfTomorrow) name(462, hipAskOfTomorrow)
#define NUMBER(number, name) id_##name = number,
enum { NAMES(NUMBER) };

const char *hipApiName(uint32_t op)
{
    switch (op) {
#define TEXT(number, name) case number: return #name;
        NAMES(TEXT)
    }
    return NULL;
}

#ifndef NO_TRACER
void hipRegisterTracerCallback(callback_t function) { callback = function; }
#endif
const char *hipGetCmdName(unsigned kind) { return kind == KERNEL ? "KernelExecution" : "Other"; }
const char *hipKernelNameRefByPtr(const void *function, void *stream) { return "kernel_by_pointer"; }
const char *hipKernelNameRef(const void *handle) { return "kernel_by_handle"; }
int hipSetDevice(int device) { return device != 0; }
int hipDeviceGetPCIBusId(char *text, int size, int device) { return 1; }
int hipDeviceGetName(char *text, int size, int device) { return 1; }

// What was done and not reported yet.
static struct record {
    uint32_t domain, kind, op, pad;
    uint64_t correlation, begin, end;
    int32_t device, pad2;
    uint64_t queue, what;
} operations[MOST_OPERATIONS];
static int count;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_BOOTTIME, &now);
    return now.tv_sec * 1000000000ull + now.tv_nsec;
}

#ifdef PROFILER

#ifndef CHUNK
#define CHUNK 10000
#endif
enum { MOST_CHUNKS = 64 };

struct activity {
    uint64_t flags, begin, end, what;
    uint32_t operations, reserved;
    struct activity *next;
    union {
        struct { uint32_t grid[3], block[3]; const void *arguments; uint32_t bytes, reserved; } kernel;
        struct { const void *source, *destination; uint8_t reserved[24]; } copy;
    } of;
    uint8_t pad[40];
};
struct profiled {
    const char *name;
    uint64_t flags, thread, start, end;
    void *stream;
    struct activity *tail;
    void *to, *from;
    uint64_t size;
    uint32_t number;
    uint8_t pad[44];
    struct activity first;
};
_Static_assert(sizeof(struct activity) == 128 && sizeof(struct profiled) == 256, "as in HIP's header");

static struct profiled *chunks[MOST_CHUNKS];
static size_t profiled_records, delivered;
static void (*chunk_callback)(const struct profiled *, uint32_t, uint32_t, void *);
static void *chunk_data;
static int enabled;
static _Thread_local struct profiled *current;

static uint64_t epoch(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return now.tv_sec * 1000000000ull + now.tv_nsec;
}

static struct profiled *profile(const char *name, void *stream)
{
    if (!__atomic_load_n(&enabled, __ATOMIC_ACQUIRE))
        return NULL;
    pthread_mutex_lock(&lock);
    size_t number = profiled_records++;
    if (!chunks[number / CHUNK])
        chunks[number / CHUNK] = calloc(CHUNK, sizeof(struct profiled));
    struct profiled *record = &chunks[number / CHUNK][number % CHUNK];
    *record = (struct profiled){.name = name, .thread = 0x7654321, .start = epoch(), .number = (uint32_t)number, .stream = stream};
    pthread_mutex_unlock(&lock);
    return record;
}

// Something that the GPU does for the current call: the first within the record, more in a list.
static struct activity *act(uint32_t op, uint32_t copy, uint64_t what)
{
    if (!current)
        return NULL;
    struct activity *made = current->first.operations ? calloc(1, sizeof *made) : &current->first;
    if (made != &current->first) {
        if (current->tail)
            current->tail->next = made;
        else
            current->first.next = made;
        current->tail = made;
    }
    current->first.operations++;
    current->flags = 1;
    made->flags = op | (uint64_t)copy << 4 | 1 << 16 | 3ull << 32;
    made->begin = epoch();
    made->end = made->begin + 1000;
    made->what = what;
    return made;
}

#ifdef LATE_CHUNKS
static pthread_t deliverer;
static int delivers;
#endif

// Whole chunks are handed out and gone.
static void hand_out(void)
{
    while (chunk_callback && profiled_records - delivered >= CHUNK) {
        size_t place = delivered / CHUNK;
#ifdef LATE_CHUNKS
        __atomic_store_n(&delivers, 1, __ATOMIC_RELEASE);
#endif
        chunk_callback(chunks[place], CHUNK, (uint32_t)place, chunk_data);
        memset(chunks[place], 0x55, CHUNK * sizeof(struct profiled));
        delivered += CHUNK;
    }
}

#ifdef LATE_CHUNKS
static void *deliver(void *unused)
{
    hand_out();
    __atomic_store_n(&delivers, 1, __ATOMIC_RELEASE);
    return unused;
}
#endif

int hipProfilerRegisterChunkCallbackExt(void (*function)(const struct profiled *, uint32_t, uint32_t, void *), void *data)
{
    // It cannot be taken back.
    if (!function)
        return 1;
    chunk_callback = function;
    chunk_data = data;
    return 0;
}

// At the end of the library, what has not filled a chunk is handed out, whether somebody has fetched it or not.
__attribute__((destructor)) static void hand_out_the_rest(void)
{
#ifdef LATE_CHUNKS
    if (delivers)
        pthread_join(deliverer, NULL);
#endif
    if (chunk_callback && profiled_records > delivered)
        chunk_callback(chunks[delivered / CHUNK], (uint32_t)(profiled_records - delivered), (uint32_t)(delivered / CHUNK), chunk_data);
}

int hipProfilerEnableExt(uint64_t *first, uint64_t state)
{
    if (first)
        *first = profiled_records;
    __atomic_add_fetch(&enabled, 1, __ATOMIC_ACQ_REL);
    return state != 0;
}

int hipProfilerDisableExt(uint64_t *last)
{
    if (last)
        *last = profiled_records;
    __atomic_sub_fetch(&enabled, 1, __ATOMIC_ACQ_REL);
    return 0;
}

int hipProfilerGetRecordsExt(struct profiled ***list, size_t *number, size_t *size, size_t *total)
{
    *list = chunks;
    *number = (profiled_records + CHUNK - 1) / CHUNK;
    *size = CHUNK;
    *total = profiled_records;
#ifdef LATE_CHUNKS
    // It begins before the list is read, and frees what it has handed out.
    if (!delivers && pthread_create(&deliverer, NULL, deliver, NULL) == 0)
        while (!__atomic_load_n(&delivers, __ATOMIC_ACQUIRE))
            sched_yield();
#endif
    return 0;
}

// Waits until somebody has switched the profiler on.
void standin_wait(void)
{
    struct timespec nap = {0, 1000000};
    while (!__atomic_load_n(&enabled, __ATOMIC_ACQUIRE))
        nanosleep(&nap, NULL);
}

#ifdef LATE_CHUNKS
#define HAND_OUT()
#else
#define HAND_OUT() hand_out()
#endif

#define PROFILED(name, stream, ...)              \
    do {                                         \
        struct profiled *own_ = profile(#name, stream); \
        current = own_;                          \
        __VA_ARGS__;                             \
        current = NULL;                          \
        if (own_)                                \
            own_->end = epoch();                 \
        HAND_OUT();                              \
    } while (0)

int hipMemcpyAsync(void *to, const void *from, size_t size, int kind, void *stream)
{
    PROFILED(hipMemcpyAsync, stream, {
        struct activity *copy = act(1, kind == 1 ? 1 : kind == 2 ? 4 : 7, size);
        if (copy) {
            copy->of.copy.source = from;
            copy->of.copy.destination = to;
            current->to = to;
            current->from = (void *)from;
            current->size = size;
        }
    });
    return 0;
}

int hipMemsetAsync(void *to, int value, size_t size, void *stream)
{
    (void)value;
    PROFILED(hipMemsetAsync, stream, {
        struct activity *fill = act(1, 12, size);
        if (fill)
            current->to = to, current->size = size;
    });
    return 0;
}

// A graph of three kernels, a copy and a barrier.
int hipGraphLaunch(void *graph, void *stream)
{
    PROFILED(hipGraphLaunch, stream, {
        if (current)
            current->to = graph;
        for (int node = 0; node < 3; node++) {
            struct activity *kernel = act(0, 0, (uint64_t)(uintptr_t)(node % 2 ? "node_odd" : "node_even"));
            if (kernel) {
                kernel->flags |= 8;
                kernel->of.kernel.grid[0] = (uint32_t)node + 1;
                kernel->of.kernel.grid[1] = kernel->of.kernel.grid[2] = 1;
                kernel->of.kernel.block[0] = 64;
                kernel->of.kernel.block[1] = kernel->of.kernel.block[2] = 1;
            }
        }
        act(1, 7, 4096);
        act(2, 0, 0);
    });
    return 0;
}

static void launch_profiled(const void *grid, const void *block)
{
    struct activity *kernel = act(0, 0, (uint64_t)(uintptr_t)"plain");
    if (kernel) {
        memcpy(kernel->of.kernel.grid, grid, 12);
        memcpy(kernel->of.kernel.block, block, 12);
    }
}

#else
#define PROFILED(name, stream, ...) __VA_ARGS__
#define launch_profiled(grid, block) (void)0
#endif

static void work(uint32_t op, uint32_t kind, uint64_t what)
{
    if (!callback || callback(OPERATIONS, op, NULL) != 0)
        return;
    pthread_mutex_lock(&lock);
    if (count < MOST_OPERATIONS)
        operations[count++] = (struct record){OPERATIONS, kind, op, 0, correlation, now(), now() + 1, 1, 0, 0, what};
    pthread_mutex_unlock(&lock);
}

static void report(void)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < count; i++)
        if (callback)
            callback(OPERATIONS, operations[i].op, &operations[i]);
    count = 0;
    pthread_mutex_unlock(&lock);
}

// Asks the tracer about a call; the record is not initialised, but for what is dirty.
static __attribute__((noinline)) int ask(uint32_t op, uint64_t *record)
{
    pthread_once(&once, set_up);
    for (int i = 0; i < WORDS; i++)
        if (dirty[i])
            record[i] = (uint64_t)(uintptr_t)&record[i] ^ 0x5a5a;
    if (!callback || callback(CALLS, op, record) != 0)
        return 0;
    correlation = record[0];
    return 1;
}

static __attribute__((noinline)) void phase(uint32_t op, uint64_t *record, size_t offset)
{
    phase_t function = *(phase_t *)((char *)record + offset);
    if (function)
        function(op, record);
}

// One call: `fill` writes the arguments, `body` is what it does.
#define CALL(name, fill, body)                       \
    do {                                             \
        uint64_t record[WORDS];                      \
        int traced = ask(id_##name, record);         \
        if (traced) {                                \
            fill;                                    \
            phase(id_##name, record, place);         \
        }                                            \
        body;                                        \
        if (traced) {                                \
            phase(id_##name, record, place + 8);     \
            correlation = 0;                         \
        }                                            \
    } while (0)
#define PUT(offset, value) memcpy((char *)record + (offset), &(value), sizeof(value))

int hipDriverGetVersion(int *result)
{
    CALL(hipDriverGetVersion, PUT(16, result), *result = version);
    return 0;
}

int hipRuntimeGetVersion(int *result)
{
    CALL(hipRuntimeGetVersion, PUT(16, result), *result = version);
    return 0;
}

int hipGetDeviceCount(int *result)
{
    CALL(hipGetDeviceCount, PUT(16, result), *result = 1);
    return 0;
}

int hipMalloc(void **result, size_t size)
{
    CALL(hipMalloc, PUT(16, result); PUT(32, size), *result = malloc(size));
    return 0;
}

int hipDeviceSynchronize(void)
{
    PROFILED(hipDeviceSynchronize, NULL, CALL(hipDeviceSynchronize, (void)0, report()));
    return 0;
}

int hipLaunchKernel(const void *function, dim3_t grid, dim3_t block, void **args, size_t shared, void *stream)
{
    PROFILED(hipLaunchKernel, stream, {
        launch_profiled(&grid, &block);
        CALL(hipLaunchKernel, PUT(16, function); PUT(24, grid); PUT(36, block); PUT(48, args); PUT(64, shared); PUT(72, stream),
             work(DISPATCH, KERNEL, (uint64_t)(uintptr_t)"plain"));
    });
    return 0;
}

int hipLaunchKernelExC(const config_t *config, const void *function, void **args)
{
    int good = config != NULL;
    CALL(hipLaunchKernelExC, PUT(16, config); PUT(80, function); PUT(88, args),
         if (good) work(DISPATCH, KERNEL, (uint64_t)(uintptr_t)"by_config"));
    return !good;
}

int hipDrvLaunchKernelEx(const config_t *config, void *function, void **args, void **extra)
{
    int good = config != NULL;
    CALL(hipDrvLaunchKernelEx, PUT(16, config); PUT(80, function); PUT(88, args); PUT(104, extra),
         if (good) work(DISPATCH, KERNEL, (uint64_t)(uintptr_t)"by_driver"));
    return !good;
}

int hipMemcpyBatchAsync(void **to, void **from, size_t *sizes, size_t number, void *attributes, size_t *indexes, size_t kinds, size_t *failed,
                        void *stream)
{
    CALL(hipMemcpyBatchAsync, PUT(16, to); PUT(32, from); PUT(48, sizes); PUT(64, number); PUT(72, attributes); PUT(144, stream),
         for (size_t i = 0; i < number; i++) work(COPY, COPY_BUFFER, sizes[i]));
    return 0;
}

struct operation3d { char source[40], destination[40]; size_t extent[3]; char kind[8]; };
_Static_assert(sizeof(struct operation3d) == 112 && offsetof(struct operation3d, extent) == 80, "as in HIP's header");

int hipMemcpy3DBatchAsync(size_t number, struct operation3d *list, size_t *failed, unsigned long long flags, void *stream)
{
    CALL(hipMemcpy3DBatchAsync, PUT(16, number); PUT(24, list); PUT(144, failed); PUT(160, flags); PUT(168, stream),
         for (size_t i = 0; i < number; i++) work(COPY, COPY_BUFFER, 0));
    return 0;
}

struct peer3d { char before[144]; size_t extent[3]; };
_Static_assert(sizeof(struct peer3d) == 168, "as in HIP's header");

int hipMemcpy3DPeer(struct peer3d *copy)
{
    CALL(hipMemcpy3DPeer, PUT(16, copy), work(COPY, COPY_BUFFER, 0));
    return 0;
}

int hipMemcpy3DPeerAsync(struct peer3d *copy, void *stream)
{
    CALL(hipMemcpy3DPeerAsync, PUT(16, copy); PUT(192, stream), work(COPY, COPY_BUFFER, 0));
    return 0;
}

#define FILL(bits, type)                                                                                                     \
    int hipMemsetD2D##bits(void *to, size_t pitch, type value, size_t width, size_t height)                                  \
    {                                                                                                                        \
        CALL(hipMemsetD2D##bits, PUT(16, to); PUT(24, pitch); PUT(32, value); PUT(40, width); PUT(48, height),               \
             work(COPY, FILL_BUFFER, 0));                                                                                    \
        return 0;                                                                                                            \
    }                                                                                                                        \
    int hipMemsetD2D##bits##Async(void *to, size_t pitch, type value, size_t width, size_t height, void *stream)             \
    {                                                                                                                        \
        CALL(hipMemsetD2D##bits##Async, PUT(16, to); PUT(24, pitch); PUT(32, value); PUT(40, width); PUT(48, height);        \
             PUT(56, stream), work(COPY, FILL_BUFFER, 0));                                                                   \
        return 0;                                                                                                            \
    }
FILL(8, uint8_t)
FILL(16, uint16_t)
FILL(32, uint32_t)

// What no header has yet: calls that launch, copy, or only ask.
int hipLaunchKernelOfTomorrow(void)
{
    CALL(hipLaunchKernelOfTomorrow, (void)0, work(DISPATCH, KERNEL, (uint64_t)(uintptr_t)"of_tomorrow"));
    return 0;
}

int hipMemcpyOfTomorrow(void)
{
    CALL(hipMemcpyOfTomorrow, (void)0, work(COPY, COPY_BUFFER, 777));
    return 0;
}

int hipAskOfTomorrow(void)
{
    CALL(hipAskOfTomorrow, (void)0, (void)0);
    return 0;
}
