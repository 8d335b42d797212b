/* rsys.h: what a program says of itself, for the trace that rsys-sample writes.
 *
 *     rsys_range_push("step");            a region of the calling thread begins
 *     rsys_range_pop();                   ... and ends; regions nest
 *
 *     struct rsys_value values[] = {rsys_int("n", 3), rsys_double("loss", 0.5), rsys_text("file", path)};
 *     rsys_range_push_with("step", values, 3);
 *
 *     uint64_t range = rsys_range_start("request");      a region that any thread may end
 *     rsys_range_stop(range);
 *     rsys_mark("checkpoint written");                   a point in time
 *     rsys_counter("queue length", 17);                  a value over time
 *     rsys_pause();  rsys_resume();                      nothing is collected in between
 *
 * C++ has rsys::range, which ends with its scope.
 *
 * There is no library to link with. Without rsys-sample each call is one comparison. The license of rsys is MIT or Apache-2.0; this file may be
 * copied into any program.
 */
#ifndef RSYS_H
#define RSYS_H

#include <stddef.h>
#include <stdint.h>

/* A value with a name; see rsys_int, rsys_uint, rsys_double and rsys_text. */
struct rsys_value {
    const char *name;
    uint64_t kind; /* 1: signed, 2: unsigned, 3: floating point, 4: text */
    union {
        int64_t as_int;
        uint64_t as_uint;
        double as_double;
        const char *as_text;
    } value;
};

#ifdef __cplusplus
extern "C" {
#endif

#define RSYS_WEAK __attribute__((weak))
RSYS_WEAK void rsys_agent_push(const char *, const struct rsys_value *, size_t);
RSYS_WEAK void rsys_agent_pop(void);
RSYS_WEAK uint64_t rsys_agent_start(const char *, const struct rsys_value *, size_t);
RSYS_WEAK void rsys_agent_stop(uint64_t);
RSYS_WEAK void rsys_agent_mark(const char *, const struct rsys_value *, size_t);
RSYS_WEAK void rsys_agent_counter(const char *, double);
RSYS_WEAK void rsys_agent_pause(void);
RSYS_WEAK void rsys_agent_resume(void);
RSYS_WEAK void rsys_agent_name_thread(const char *);
RSYS_WEAK int rsys_agent_is_recording(void);

#ifdef __cplusplus
}
#endif

/* The address of a function of the agent, or 0. Code that is not position-independent would have it decided when it is linked: it is read
 * from the table that the loader fills. */
#if defined(__x86_64__) && !defined(__PIC__) && !defined(__PIE__)
#define RSYS_IS_THERE(function)                                                                   \
    (__extension__({                                                                              \
        void *rsys_address;                                                                       \
        __asm__(".weak " #function "\n\tmovq " #function "@GOTPCREL(%%rip), %0" : "=r"(rsys_address)); \
        rsys_address != 0;                                                                        \
    }))
#define RSYS_CALL(function)                                                                       \
    (__extension__({                                                                              \
        __typeof__(&function) rsys_address;                                                       \
        __asm__(".weak " #function "\n\tmovq " #function "@GOTPCREL(%%rip), %0" : "=r"(rsys_address)); \
        rsys_address;                                                                             \
    }))
#else
#define RSYS_IS_THERE(function) (function != 0)
#define RSYS_CALL(function) function
#endif

static inline struct rsys_value rsys_int(const char *name, int64_t value) {
    struct rsys_value result;
    result.name = name, result.kind = 1, result.value.as_int = value;
    return result;
}

static inline struct rsys_value rsys_uint(const char *name, uint64_t value) {
    struct rsys_value result;
    result.name = name, result.kind = 2, result.value.as_uint = value;
    return result;
}

static inline struct rsys_value rsys_double(const char *name, double value) {
    struct rsys_value result;
    result.name = name, result.kind = 3, result.value.as_double = value;
    return result;
}

static inline struct rsys_value rsys_text(const char *name, const char *value) {
    struct rsys_value result;
    result.name = name, result.kind = 4, result.value.as_text = value;
    return result;
}

static inline void rsys_range_push_with(const char *name, const struct rsys_value *values, size_t count) {
    if (RSYS_IS_THERE(rsys_agent_push)) RSYS_CALL(rsys_agent_push)(name, values, count);
}

static inline void rsys_range_push(const char *name) { rsys_range_push_with(name, 0, 0); }

static inline void rsys_range_pop(void) {
    if (RSYS_IS_THERE(rsys_agent_pop)) RSYS_CALL(rsys_agent_pop)();
}

/* Returns 0 where nothing is recorded. */
static inline uint64_t rsys_range_start(const char *name) {
    return RSYS_IS_THERE(rsys_agent_start) ? RSYS_CALL(rsys_agent_start)(name, 0, 0) : 0;
}

static inline void rsys_range_stop(uint64_t range) {
    if (RSYS_IS_THERE(rsys_agent_stop)) RSYS_CALL(rsys_agent_stop)(range);
}

static inline void rsys_mark_with(const char *name, const struct rsys_value *values, size_t count) {
    if (RSYS_IS_THERE(rsys_agent_mark)) RSYS_CALL(rsys_agent_mark)(name, values, count);
}

static inline void rsys_mark(const char *name) { rsys_mark_with(name, 0, 0); }

static inline void rsys_counter(const char *name, double value) {
    if (RSYS_IS_THERE(rsys_agent_counter)) RSYS_CALL(rsys_agent_counter)(name, value);
}

static inline void rsys_pause(void) {
    if (RSYS_IS_THERE(rsys_agent_pause)) RSYS_CALL(rsys_agent_pause)();
}

static inline void rsys_resume(void) {
    if (RSYS_IS_THERE(rsys_agent_resume)) RSYS_CALL(rsys_agent_resume)();
}

static inline void rsys_name_thread(const char *name) {
    if (RSYS_IS_THERE(rsys_agent_name_thread)) RSYS_CALL(rsys_agent_name_thread)(name);
}

/* Whether anything is recorded at present: to save the work for a name. */
static inline int rsys_is_recording(void) {
    return RSYS_IS_THERE(rsys_agent_is_recording) ? RSYS_CALL(rsys_agent_is_recording)() : 0;
}

#ifdef __cplusplus
namespace rsys {
/* A region that ends with its scope. */
class range {
  public:
    explicit range(const char *name) { rsys_range_push(name); }
    range(const char *name, const rsys_value *values, size_t count) { rsys_range_push_with(name, values, count); }
    ~range() { rsys_range_pop(); }
    range(const range &) = delete;
    range &operator=(const range &) = delete;
};
} // namespace rsys
#endif

#endif
