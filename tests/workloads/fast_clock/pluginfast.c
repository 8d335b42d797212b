/* Shows whoever it is loaded into a clock that runs ten thousand times as fast, and waits as short as belong to it: libfaketime with `x10000`. */
#define _GNU_SOURCE
#include <poll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define FASTER 10000

int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = (int)syscall(SYS_clock_gettime, clock, time);
    if (clock != CLOCK_PROCESS_CPUTIME_ID && clock != CLOCK_THREAD_CPUTIME_ID) {
        long fraction = time->tv_nsec * FASTER;
        time->tv_sec = time->tv_sec * FASTER + fraction / 1000000000;
        time->tv_nsec = fraction % 1000000000;
    }
    return result;
}

int poll(struct pollfd *descriptors, nfds_t count, int timeout_ms) {
    struct timespec timeout = {.tv_sec = 0, .tv_nsec = timeout_ms * 1000000L / FASTER};
    return (int)syscall(SYS_ppoll, descriptors, count, timeout_ms < 0 ? NULL : &timeout, NULL, 8);
}
