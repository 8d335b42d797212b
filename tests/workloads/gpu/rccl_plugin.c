// A plug-in of RCCL's profiler interface, as a user may have one, in the versions 1 to 6 (the header's fields are those that all of these have at
// the same place). It keeps an object for each event, checks that what the library hands back is what it gave out, and when it is unloaded
// appends one line of counts to the file that RCCL_PLUGIN_LOG names. RCCL_PLUGIN_MASK says which events it asks for (all but those of the
// kernels' channels by default).
// It has the one version that VERSION says, 4 by default. A program may wait for what proxies begin: `rccl_plugin_await`.
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { GROUP = 1, PROXY_OP = 8, PROXY_STEP = 16, TYPES = 20, CONTEXT = 0x52434c43, EVENT = 0x52434c45 };

struct context {
    int magic;
    int events;
};
struct event {
    int magic, type, is_stopped, is_send;
    // Of a collective or message: whether proxies have begun to receive for it (1) and to send (2).
    int ways;
    struct context *context;
};
// What all versions have in common: the type is one byte before version 5. The rest is of operations of proxies.
struct description {
    union {
        uint8_t narrow;
        uint64_t wide;
    } type;
    void *parent;
    int rank;
    _Alignas(8) int process;
    int channel, peer, steps, bytes, is_send;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int contexts, contexts_made, started[TYPES], stopped[TYPES], states, bad, unasked;
static int mask;
static int is_wide;
// How many ways of collectives and messages proxies have begun, and in which directions steps have come to a state.
static int ways_begun, directions;
static pthread_cond_t has_begun = PTHREAD_COND_INITIALIZER;

static const char *setting(const char *name, const char *otherwise)
{
    const char *value = getenv(name);
    return value && *value ? value : otherwise;
}

static int begin(void **context, int *activation)
{
    pthread_mutex_lock(&lock);
    mask = (int)strtol(setting("RCCL_PLUGIN_MASK", "0x3f"), NULL, 0);
    *activation = mask;
    struct context *made = calloc(1, sizeof *made);
    made->magic = CONTEXT;
    *context = made;
    contexts++;
    contexts_made++;
    pthread_mutex_unlock(&lock);
    return 0;
}

static int init_1(void **context, int *activation) { return begin(context, activation); }

static int init_4(void **context, int *activation, const char *name, uint64_t hash, int nodes, int ranks, int rank, void *logger)
{
    (void)name;
    if (!hash || nodes < 1 || rank < 0 || rank >= ranks || !logger)
        bad++;
    return begin(context, activation);
}

static int init_5(void **context, uint64_t hash, int *activation, const char *name, int nodes, int ranks, int rank, void *logger)
{
    return init_4(context, activation, name, hash, nodes, ranks, rank, logger);
}

static int place(int type)
{
    int bit = 0;
    while (type > 1 && bit < TYPES - 1) {
        type >>= 1;
        bit++;
    }
    return bit;
}

// The kinds of events that may hang beneath others: whoever asks for one gets what is above it as well.
static int may_come(int type)
{
    static const int above[][2] = {{1, 0xdf}, {2, 0xda}, {4, 0xdc}, {8, 0x98}, {16, 0x90}};
    for (size_t i = 0; i < sizeof above / sizeof *above; i++)
        if (above[i][0] == type)
            return mask & above[i][1];
    return type > 0xff || mask & type;
}

static int start(void *context, void **handle, struct description *event)
{
    struct context *mine = context;
    int type = is_wide ? (int)event->type.wide : event->type.narrow;
    pthread_mutex_lock(&lock);
    struct event *parent = event->parent;
    // A neighbour's context and parent are addresses of its process; its steps have the same context, and a parent of ours.
    int is_neighbours = type == PROXY_OP && event->process != getpid();
    if (!is_neighbours && parent && parent->magic != EVENT)
        bad++;
    int has_context = !is_neighbours && !(type == PROXY_STEP && parent && !parent->context);
    if (!has_context)
        mine = NULL;
    else if (!mine || mine->magic != CONTEXT)
        bad++;
    if (!may_come(type))
        unasked++;
    started[place(type)]++;
    struct event *made = calloc(1, sizeof *made);
    *made = (struct event){EVENT, type, 0, 0, 0, mine};
    if (parent && !is_neighbours && type == PROXY_OP) {
        made->is_send = event->is_send != 0;
        ways_begun += !(parent->ways & 1 << made->is_send);
        parent->ways |= 1 << made->is_send;
        pthread_cond_broadcast(&has_begun);
    } else if (parent && type == PROXY_STEP) {
        made->is_send = parent->is_send;
    }
    *handle = made;
    pthread_mutex_unlock(&lock);
    return 0;
}

static int stop(void *handle)
{
    struct event *event = handle;
    pthread_mutex_lock(&lock);
    if (!event || event->magic != EVENT || event->is_stopped)
        bad++;
    else {
        event->is_stopped = 1;
        stopped[place(event->type)]++;
    }
    pthread_mutex_unlock(&lock);
    return 0;
}

static int record(void *handle, int state, void *values)
{
    struct event *event = handle;
    (void)state, (void)values;
    pthread_mutex_lock(&lock);
    if (!event || event->magic != EVENT || event->is_stopped)
        bad++;
    else if (event->type == PROXY_STEP) {
        directions |= 1 << event->is_send;
        pthread_cond_broadcast(&has_begun);
    }
    states++;
    pthread_mutex_unlock(&lock);
    return 0;
}

static int finish(void *context)
{
    struct context *mine = context;
    pthread_mutex_lock(&lock);
    if (!mine || mine->magic != CONTEXT)
        bad++;
    contexts--;
    pthread_mutex_unlock(&lock);
    return 0;
}

// Waits until proxies have begun so many ways of collectives and messages, of which each has two, and wait in a step of each direction. Not longer than a minute.
__attribute__((visibility("default"))) int rccl_plugin_await(int ways)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 60;
    int failed = 0;
    pthread_mutex_lock(&lock);
    while (!failed && (ways_begun < ways || directions != 3))
        failed = pthread_cond_timedwait(&has_begun, &lock, &until);
    pthread_mutex_unlock(&lock);
    return failed;
}

__attribute__((destructor)) static void report(void)
{
    pthread_mutex_lock(&lock);
    if (contexts_made) {
        FILE *log = fopen(setting("RCCL_PLUGIN_LOG", "/dev/null"), "a");
        fprintf(log, "contexts=%d open=%d bad=%d unasked=%d states=%d started=", contexts_made, contexts, bad, unasked, states);
        for (int i = 0; i < TYPES; i++)
            fprintf(log, "%d,", started[i]);
        fprintf(log, " stopped=");
        for (int i = 0; i < TYPES; i++)
            fprintf(log, "%d,", stopped[i]);
        fprintf(log, "\n");
        fclose(log);
    }
    pthread_mutex_unlock(&lock);
}

struct plugin {
    const char *name;
    void *init, *start, *stop, *record, *finish;
};

#define VERSION_IS(number, init)                                                       \
    __attribute__((visibility("default"))) struct plugin ncclProfiler_v##number = {    \
        "user", (void *)init, (void *)start, (void *)stop, (void *)record, (void *)finish}

#ifndef VERSION
#define VERSION 4
#endif
#if VERSION == 1
VERSION_IS(1, init_1);
#elif VERSION == 2
VERSION_IS(2, init_1);
#elif VERSION == 3
VERSION_IS(3, init_1);
#elif VERSION == 4
VERSION_IS(4, init_4);
#elif VERSION == 5
VERSION_IS(5, init_5);
#elif VERSION == 6
VERSION_IS(6, init_5);
#else
VERSION_IS(7, init_5);
#endif

__attribute__((constructor)) static void choose(void)
{
    is_wide = VERSION >= 5;
    (void)init_1, (void)init_4, (void)init_5;
}
