// How programs for GPUs check what they do (whatever goes wrong ends the program, and says where) and read clocks. Included behind the headers
// of the runtimes.
#ifndef RSYS_CHECK_H
#define RSYS_CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

// A call that returns 0 if all is well. `words` makes text of a status.
#define CHECK_BY(type, words, call)                                                                        \
    do {                                                                                                   \
        type status_ = (type)(call);                                                                       \
        if ((int)status_ != 0) {                                                                           \
            fprintf(stderr, "%s:%d: %s: %#x %s\n", __FILE__, __LINE__, #call, (unsigned)status_, words);    \
            exit(1);                                                                                       \
        }                                                                                                  \
    } while (0)

// Of any runtime, of HIP, of RCCL.
#define CHECK(call) CHECK_BY(int, "", call)
#define HIP(call) CHECK_BY(hipError_t, hipGetErrorString(status_), call)
#define NCCL(call) CHECK_BY(ncclResult_t, ncclGetErrorString(status_), call)

#define REQUIRE(condition)                                                          \
    do {                                                                            \
        if (!(condition)) {                                                         \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            exit(1);                                                                \
        }                                                                           \
    } while (0)

// What a clock shows, in nanoseconds.
static inline double now_ns(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

#endif
