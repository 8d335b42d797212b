// A stand-in for RCCL that drives a plug-in of its profiler interface as the library does, with transfers that end: two ranks in one process, a thread for the
// proxies. The versions 1 to 6 of the interface: it asks for the one that RCCL_STANDIN_NEWEST names, and for older ones if that is not there.
//
// Compiled as a library it has the functions of RCCL, and `rccl_standin_play`, which calls them; compiled with PROGRAM it is a program that opens the library
// that is its argument and calls that function. RCCL_STANDIN_CROWD more communicators are set up, and do nothing. With
// RCCL_STANDIN_EXEC it fails to become another program, once, in the midst of its first operation. It prints what it did, a line for each operation:
//     op FUNCTION SEQUENCE RANK CHANNEL DIRECTION PEER STEPS BYTES, and for each of the times of GPU, peer, network and flush the least and the most (ns)
// or, for one that a proxy runs for a process beside its own,
//     neighbour CHANNEL DIRECTION PEER STEPS BYTES
// Compiled with MEASURE it is a program by itself: `rccl_standin N` is the best of 20 parts of N steps that wait for nothing, in nanoseconds for a step, as ns=...
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#ifdef PROGRAM

int main(int argc, char **argv)
{
    void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    int (*play)(void) = library ? (int (*)(void))dlsym(library, "rccl_standin_play") : NULL;
    if (!play) {
        fprintf(stderr, "rccl_standin: %s\n", dlerror());
        return 2;
    }
    return play();
}

#else

#include <pthread.h>

enum { RANKS = 2, CHANNELS = 2, NEIGHBOURS_CHANNEL = 7, STEPS = 3, PHASES = 4 };
enum { GROUP = 1, COLLECTIVE = 2, MESSAGE = 4, PROXY_OP = 8, PROXY_STEP = 16, GROUP_CALL = 256, COLLECTIVE_CALL = 512, MESSAGE_CALL = 1024 };
enum { KERNEL_CHANNEL = 64, NET_PLUGIN = 128 };
enum { SEND_GPU = 8, SEND_NETWORK = 9, RECEIVE_NETWORK = 10, RECEIVE_FLUSH = 11, RECEIVE_GPU = 12, SEND_PEER = 20 };

typedef struct ncclComm {
    int rank;
    void *context;
} *ncclComm_t;

struct plugin {
    const char *name;
    void *init;
    int (*start)(void *context, void **handle, void *event);
    int (*stop)(void *handle);
    int (*record)(void *handle, int state, void *values);
    int (*finish)(void *context);
};
static struct plugin *plugin;
static int version, mask;
static struct ncclComm communicators[RANKS];

// A description of an event: the common part, and room for that of each kind.
struct event {
    union {
        uint8_t narrow;
        uint64_t wide;
    } type;
    void *parent;
    int rank;
    _Alignas(8) unsigned char body[128];
};

static void put(struct event *event, size_t at, const void *value, size_t bytes) { memcpy(event->body + at, value, bytes); }
#define PUT(event, at, value)                          \
    do {                                               \
        __typeof__(value) put_ = (value);              \
        put(event, at, &put_, sizeof put_);            \
    } while (0)

// Whether events of this kind are made: somebody asked for them, or for such as hang beneath them.
static int is_asked(int type)
{
    const int steps = PROXY_STEP | NET_PLUGIN, operations = PROXY_OP | steps, tasks = operations | KERNEL_CHANNEL;
    switch (type) {
    case PROXY_STEP:
        return mask & steps;
    case PROXY_OP:
        return mask & operations;
    case COLLECTIVE:
    case MESSAGE:
        return mask & (type | tasks);
    case GROUP:
        return mask & (GROUP | COLLECTIVE | MESSAGE | tasks);
    case COLLECTIVE_CALL:
        return mask & (COLLECTIVE_CALL | COLLECTIVE | tasks);
    case MESSAGE_CALL:
        return mask & (MESSAGE_CALL | MESSAGE | tasks);
    default:
        return mask & type;
    }
}

static void *begin(void *context, int type, void *parent, int rank, struct event *event)
{
    void *handle = NULL;
    if (version >= 5)
        event->type.wide = (uint64_t)type;
    else
        event->type.narrow = (uint8_t)type;
    event->parent = parent;
    event->rank = rank;
    if (plugin && is_asked(type))
        plugin->start(context, &handle, event);
    return handle;
}

static void end(void *handle)
{
    if (plugin && handle)
        plugin->stop(handle);
}

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_BOOTTIME, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static void load(void)
{
    const char *name = getenv("NCCL_PROFILER_PLUGIN"), *newest = getenv("RCCL_STANDIN_NEWEST");
    void *library = NULL;
    if (name && *name && strcasecmp(name, "none"))
        library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    else if (!name || !*name)
        library = dlopen("librccl-profiler.so", RTLD_NOW | RTLD_LOCAL);
    for (version = newest ? atoi(newest) : 4; library && version > 0; version--) {
        char symbol[32];
        snprintf(symbol, sizeof symbol, "ncclProfiler_v%d", version);
        if ((plugin = dlsym(library, symbol)))
            break;
    }
    printf("plugin=%s version=%d\n", plugin ? plugin->name : "none", plugin ? version : 0);
}

static void logger(void) {}

static int set_up(ncclComm_t communicator)
{
    uint64_t hash = 0x1234;
    int rank = communicator->rank;
    if (!plugin)
        return 0;
    if (version < 4)
        return ((int (*)(void **, int *))plugin->init)(&communicator->context, &mask);
    if (version == 4)
        return ((int (*)(void **, int *, const char *, uint64_t, int, int, int, void *))plugin->init)(
            &communicator->context, &mask, "name", hash, 2, RANKS, rank, (void *)logger);
    return ((int (*)(void **, uint64_t, int *, const char *, int, int, int, void *))plugin->init)(
        &communicator->context, hash, &mask, "name", 2, RANKS, rank, (void *)logger);
}

int ncclCommInitAll(ncclComm_t *to, int ranks, const int *devices)
{
    (void)devices;
    load();
    for (int i = 0; i < ranks; i++) {
        communicators[i].rank = i;
        to[i] = &communicators[i];
        if (set_up(to[i]))
            return 3;
    }
    return 0;
}

int ncclCommDestroy(ncclComm_t communicator)
{
    if (plugin && communicator->context)
        plugin->finish(communicator->context);
    return 0;
}

int ncclCommUserRank(ncclComm_t communicator, int *rank) { return *rank = communicator->rank, 0; }
int ncclCommCount(ncclComm_t communicator, int *ranks) { return (void)communicator, *ranks = RANKS, 0; }

// What is to be done for one call, by the thread of the proxies.
struct task {
    ncclComm_t communicator;
    const char *function;
    int is_message, is_send, peer, sequence;
    void *handle;
};

struct bounds {
    uint64_t least, most;
};

// The times around a call of the plug-in, between which it took its own.
struct around {
    uint64_t before, after;
};

static void add(struct bounds *to, struct around from, struct around until)
{
    to->least += until.before > from.after ? until.before - from.after : 0;
    to->most += until.after - from.before;
}

static void spin(uint64_t ns)
{
    for (uint64_t since = now(); now() - since < ns;)
        ;
}

// Becomes another program, which is not there, once.
static void fail_to_exec(void)
{
    char *none[] = {NULL};
    static int is_done;
    if (!is_done++ && getenv("RCCL_STANDIN_EXEC"))
        execv("/nowhere", none);
}

// One operation of a proxy, on one channel in one direction. A neighbour's has addresses that mean something else in this process: the other rank's context.
static void operate(const struct task *task, int channel, int is_send)
{
    int is_neighbours = channel == NEIGHBOURS_CHANNEL;
    int rank = task->communicator->rank, chunk = 4096 + channel;
    void *context = is_neighbours ? communicators[1 - rank].context : task->communicator->context;
    struct event event = {0};
    PUT(&event, 0, (int)getpid() + is_neighbours);
    PUT(&event, 4, (uint8_t)channel);
    PUT(&event, 8, task->peer);
    PUT(&event, 12, (int)STEPS);
    PUT(&event, 16, chunk);
    PUT(&event, 20, is_send);
    void *operation = begin(context, PROXY_OP, task->handle, rank, &event);
    struct bounds times[PHASES] = {0};
    size_t sent = 0;
    // The phases of a step, and the states that begin them.
    const int sends[3][2] = {{SEND_GPU, 0}, {SEND_PEER, 1}, {SEND_NETWORK, 2}};
    const int receives[3][2] = {{RECEIVE_NETWORK, 2}, {RECEIVE_FLUSH, 3}, {RECEIVE_GPU, 0}};
    for (int step = 0; step < STEPS; step++) {
        struct event of_step = {0};
        PUT(&of_step, 0, step);
        void *handle = begin(context, PROXY_STEP, operation, rank, &of_step);
        struct around last = {0};
        int phase = -1;
        for (int place = 0; place < 3; place++) {
            const int *to = is_send ? sends[place] : receives[place];
            // Before version 4 the peer's room is not told.
            if (to[0] == SEND_PEER && version < 4)
                continue;
            size_t bytes = to[0] == SEND_NETWORK || to[0] == RECEIVE_FLUSH ? (size_t)chunk : 0;
            struct around call = {now(), 0};
            if (plugin && handle)
                plugin->record(handle, to[0], version < 4 ? NULL : &bytes);
            call.after = now();
            if (phase >= 0)
                add(&times[phase], last, call);
            last = call;
            phase = to[1];
            spin(20000 + 10000 * (uint64_t)(place + channel));
            if (step == 1 && place == 1)
                fail_to_exec();
        }
        struct around call = {now(), 0};
        end(handle);
        call.after = now();
        add(&times[phase], last, call);
        sent += (size_t)chunk;
        if (version < 4 && plugin && operation) {
            struct {
                size_t bytes;
                int steps;
            } values = {sent, step + 1};
            plugin->record(operation, is_send ? 2 : 6, &values);
        }
    }
    end(operation);
    if (is_neighbours) {
        printf("neighbour %d %s %d %d %zu\n", channel, is_send ? "send" : "receive", task->peer, STEPS, sent);
        return;
    }
    printf("op nccl%s %d %d %d %s %d %d %zu", task->function, task->sequence, rank, channel, is_send ? "send" : "receive", task->peer, STEPS, sent);
    for (int phase = 0; phase < PHASES; phase++)
        printf(" %llu %llu", (unsigned long long)times[phase].least, (unsigned long long)times[phase].most);
    printf("\n");
}

static void *proxies(void *data)
{
    const struct task *task = data;
    for (int channel = 0; channel < CHANNELS; channel++)
        for (int is_send = 0; is_send < 2; is_send++)
            if (!task->is_message || task->is_send == is_send)
                operate(task, channel, is_send);
    for (int is_send = 0; !task->is_message && is_send < 2; is_send++)
        operate(task, NEIGHBOURS_CHANNEL, is_send);
    return NULL;
}

static int enqueue(struct task task, const void *send, void *receive, size_t count)
{
    void *context = task.communicator->context;
    int rank = task.communicator->rank;
    struct event of_call = {0}, of_group = {0}, event = {0};
    void *call = NULL;
    if (version >= 5)
        call = begin(context, task.is_message ? MESSAGE_CALL : COLLECTIVE_CALL, NULL, rank, &of_call);
    void *group = begin(context, GROUP, NULL, rank, &of_group);
    size_t name_at, buffers_at, group_at = task.is_message ? 40 : 80;
    if (task.is_message) {
        name_at = version < 4 ? 16 : 0;
        buffers_at = version < 4 ? 24 : 8;
    } else {
        name_at = version < 4 ? 24 : 8;
        buffers_at = version < 4 ? 32 : 16;
    }
    if (version > 1)
        PUT(&event, name_at, task.function);
    PUT(&event, buffers_at, send);
    if (!task.is_message) {
        PUT(&event, buffers_at + 8, receive);
        PUT(&event, buffers_at + 16, count);
    }
    if (version >= 5)
        PUT(&event, group_at, group);
    task.handle = begin(context, task.is_message ? MESSAGE : COLLECTIVE, version >= 5 ? call : group, rank, &event);
    end(task.handle);
    end(group);
    end(call);
    pthread_t thread;
    if (pthread_create(&thread, NULL, proxies, &task))
        return 3;
    pthread_join(thread, NULL);
    return 0;
}

int ncclAllReduce(const void *send, void *receive, size_t count, int type, int operation, ncclComm_t communicator, void *stream)
{
    static int sequences[RANKS];
    (void)type, (void)operation, (void)stream;
    struct task task = {communicator, "AllReduce", 0, 0, 1 - communicator->rank, sequences[communicator->rank]++, NULL};
    return enqueue(task, send, receive, count);
}

int ncclSend(const void *send, size_t count, int type, int peer, ncclComm_t communicator, void *stream)
{
    static int sequences[RANKS];
    (void)type, (void)stream;
    struct task task = {communicator, "Send", 1, 1, peer, sequences[communicator->rank]++, NULL};
    return enqueue(task, send, NULL, count);
}

int ncclRecv(void *receive, size_t count, int type, int peer, ncclComm_t communicator, void *stream)
{
    static int sequences[RANKS];
    (void)type, (void)stream;
    struct task task = {communicator, "Recv", 1, 0, peer, sequences[communicator->rank]++, NULL};
    return enqueue(task, receive, NULL, count);
}

#ifdef MEASURE

// The events of steps of an operation, one behind the other.
static uint64_t steps_ns(void *context, void *operation, int steps)
{
    uint64_t since = now();
    for (int step = 0; step < steps; step++) {
        struct event event = {0};
        PUT(&event, 0, step);
        void *handle = begin(context, PROXY_STEP, operation, 0, &event);
        const int states[3] = {SEND_GPU, SEND_PEER, SEND_NETWORK};
        for (int place = 0; place < 3; place++) {
            size_t bytes = states[place] == SEND_NETWORK ? 4096 : 0;
            if (plugin && handle)
                plugin->record(handle, states[place], &bytes);
        }
        end(handle);
    }
    return now() - since;
}

int main(int argc, char **argv)
{
    int steps = argc > 1 ? atoi(argv[1]) : 500;
    uint64_t best = UINT64_MAX;
    ncclComm_t all[RANKS];
    if (steps <= 0 || ncclCommInitAll(all, RANKS, NULL))
        return 3;
    for (int part = 0; part < 20; part++) {
        struct event of_task = {0}, of_operation = {0};
        const char *function = "AllReduce";
        if (version > 1)
            PUT(&of_task, version < 4 ? 24 : 8, function);
        void *task = begin(all[0]->context, COLLECTIVE, NULL, 0, &of_task);
        PUT(&of_operation, 0, (int)getpid());
        PUT(&of_operation, 8, (int)1);
        PUT(&of_operation, 12, steps);
        PUT(&of_operation, 20, (int)1);
        void *operation = begin(all[0]->context, PROXY_OP, task, 0, &of_operation);
        uint64_t took = steps_ns(all[0]->context, operation, steps);
        best = took < best ? took : best;
        end(operation);
        end(task);
        // A profiler that empties its rings now and then finds room for all of the next part.
        usleep(20000);
    }
    printf("ns=%.1f\n", (double)best / steps);
    for (int rank = 0; rank < RANKS; rank++)
        ncclCommDestroy(all[rank]);
    return 0;
}

#else

int rccl_standin_play(void)
{
    static float buffers[RANKS][4096];
    ncclComm_t all[RANKS];
    if (ncclCommInitAll(all, RANKS, NULL))
        return 3;
    const char *more = getenv("RCCL_STANDIN_CROWD");
    int crowd_size = more ? atoi(more) : 0;
    struct ncclComm *crowd = calloc((size_t)crowd_size + 1, sizeof *crowd);
    for (int i = 0; i < crowd_size; i++)
        if (set_up(&crowd[i]))
            return 3;
    for (int call = 0; call < 3; call++)
        for (int rank = 0; rank < RANKS; rank++)
            if (ncclAllReduce(buffers[rank], buffers[rank] + call * 16, 16, 7, 0, all[rank], NULL))
                return 3;
    for (int rank = 0; rank < RANKS; rank++)
        if (ncclSend(buffers[rank], 8, 7, 1 - rank, all[rank], NULL) || ncclRecv(buffers[rank] + 8, 8, 7, 1 - rank, all[rank], NULL))
            return 3;
    for (int rank = 0; rank < RANKS; rank++)
        ncclCommDestroy(all[rank]);
    for (int i = 0; i < crowd_size; i++)
        ncclCommDestroy(&crowd[i]);
    free(crowd);
    fflush(stdout);
    return 0;
}

#endif
#endif
