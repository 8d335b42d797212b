/* A tool of OpenMP that counts: the judge of what is recorded, and a stranger that wants the same callbacks. Compile with -shared -fPIC.
 * It keeps a number in the words that the runtime has for it, and finds it there again. When the runtime ends it prints
 * `tool: NAME=COUNT ...` and how many words were not as it had left them. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef union { uint64_t value; void *pointer; } word;
typedef void (*callback)(void);
typedef int (*set_callback)(int, callback);
typedef callback (*lookup_function)(const char *);
typedef struct {
    int (*initialize)(lookup_function, int, word *);
    void (*finalize)(word *);
    word data;
} result;

enum { BEGIN = 1, END = 2 };
static long parallel, implicit, loops, other_work, masked, waits, reductions, created, started, acquires, trials, acquired, released, nested;
static long targets, copies, submits, disturbed;
#define COUNT(what) __atomic_add_fetch(&(what), 1, __ATOMIC_RELAXED)
enum { MARK_REGION = 0x5eed0001, MARK_IMPLICIT = 0x5eed0002, MARK_TASK = 0x5eed0003 };

static void expect(word *data, uint64_t mark) {
    if (data != NULL && data->value != mark) COUNT(disturbed);
}
static void on_parallel_begin(word *task, void *frame, word *region, unsigned threads, int flags, void *code) {
    (void)task, (void)frame, (void)threads, (void)flags, (void)code;
    COUNT(parallel);
    region->value = MARK_REGION;
}
static void on_parallel_end(word *region, word *task, int flags, void *code) {
    (void)task, (void)flags, (void)code;
    expect(region, MARK_REGION);
}
static void on_implicit_task(int endpoint, word *region, word *task, unsigned threads, unsigned index, int flags) {
    (void)threads, (void)index;
    if (endpoint == BEGIN) {
        if (!(flags & 1)) {
            COUNT(implicit);
            expect(region, MARK_REGION);
        }
        task->value = MARK_IMPLICIT;
    } else {
        expect(task, MARK_IMPLICIT);
    }
}
static void on_work(int kind, int endpoint, word *region, word *task, uint64_t count, void *code) {
    (void)region, (void)task, (void)count, (void)code;
    if (endpoint != BEGIN) return;
    if (kind == 1 || kind >= 10) COUNT(loops);
    else COUNT(other_work);
}
static void on_masked(int endpoint, word *region, word *task, void *code) {
    (void)region, (void)task, (void)code;
    if (endpoint == BEGIN) COUNT(masked);
}
static void on_sync(int kind, int endpoint, word *region, word *task, void *code) {
    (void)kind, (void)region, (void)code;
    if (endpoint == BEGIN) COUNT(waits);
    if (task != NULL && task->value != MARK_IMPLICIT && task->value != MARK_TASK) COUNT(disturbed);
}
static void on_reduction(int kind, int endpoint, word *region, word *task, void *code) {
    (void)kind, (void)region, (void)task, (void)code;
    if (endpoint == BEGIN) COUNT(reductions);
}
static void on_task_create(word *creator, void *frame, word *task, int flags, int dependences, void *code) {
    (void)creator, (void)frame, (void)dependences, (void)code;
    if (flags & 1) return;
    COUNT(created);
    task->value = MARK_TASK;
}
static void on_task_schedule(word *prior, int status, word *next) {
    if (status == 1) expect(prior, MARK_TASK);
    if (next != NULL && next->value == MARK_TASK && status == 7) COUNT(started);
}
static void on_acquire(int kind, unsigned hint, unsigned implementation, uint64_t lock, void *code) {
    (void)hint, (void)implementation, (void)lock, (void)code;
    if (kind == 2 || kind == 4) COUNT(trials);
    else COUNT(acquires);
}
static void on_acquired(int kind, uint64_t lock, void *code) { (void)kind, (void)lock, (void)code; COUNT(acquired); }
static void on_released(int kind, uint64_t lock, void *code) { (void)kind, (void)lock, (void)code; COUNT(released); }
static void on_nest_lock(int endpoint, uint64_t lock, void *code) { (void)endpoint, (void)lock, (void)code; COUNT(nested); }
static void on_target(int kind, int endpoint, int device, word *task, uint64_t id, void *code) {
    (void)kind, (void)device, (void)task, (void)id, (void)code;
    if (endpoint == BEGIN) COUNT(targets);
}
static void on_data_op(uint64_t target, uint64_t id, int kind, void *source, int from, void *destination, int to, size_t bytes, void *code) {
    (void)target, (void)id, (void)kind, (void)source, (void)from, (void)destination, (void)to, (void)bytes, (void)code;
    COUNT(copies);
}
static void on_submit(uint64_t target, uint64_t id, unsigned teams) { (void)target, (void)id, (void)teams; COUNT(submits); }

static int initialize(lookup_function lookup, int device, word *data) {
    (void)device, (void)data;
    set_callback set = (set_callback)lookup("ompt_set_callback");
    struct { int event; callback function; } wanted[] = {
        {3, (callback)on_parallel_begin}, {4, (callback)on_parallel_end}, {5, (callback)on_task_create}, {6, (callback)on_task_schedule},
        {7, (callback)on_implicit_task}, {20, (callback)on_work}, {21, (callback)on_masked}, {23, (callback)on_sync},
        {31, (callback)on_reduction}, {26, (callback)on_acquire}, {27, (callback)on_acquired}, {17, (callback)on_released},
        {28, (callback)on_nest_lock}, {8, (callback)on_target}, {9, (callback)on_data_op}, {10, (callback)on_submit},
    };
    for (unsigned i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        set(wanted[i].event, wanted[i].function);
    }
    return 1;
}
static void finalize(word *data) {
    (void)data;
    printf("tool: parallel=%ld implicit=%ld loops=%ld other_work=%ld masked=%ld waits=%ld reductions=%ld created=%ld started=%ld "
           "acquires=%ld acquired=%ld released=%ld nested=%ld disturbed=%ld targets=%ld copies=%ld submits=%ld\n",
           parallel, implicit, loops, other_work, masked, waits, reductions, created, started, acquires, acquired, released, nested,
           disturbed, targets, copies, submits);
    fflush(stdout);
}

#ifdef __cplusplus
extern "C"
#endif
result *ompt_start_tool(unsigned version, const char *runtime) {
    (void)version, (void)runtime;
    static result ours = {initialize, finalize, {0}};
    return getenv("NO_TOOL") ? NULL : &ours;
}
