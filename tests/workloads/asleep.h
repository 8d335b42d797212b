/* When a thread of this program has begun to wait. */
#ifndef RSYS_ASLEEP_H
#define RSYS_ASLEEP_H

#include "work.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/syscall.h>

/* The beginning of what the kernel says in a file of a thread; empty where it says nothing. */
static inline void read_of_thread(int tid, const char *name, char *text, size_t bytes) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d/%s", tid, name);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t count = file < 0 ? -1 : read(file, text, bytes - 1);
    text[count > 0 ? count : 0] = 0;
    if (file >= 0) close(file);
}

/* Returns when the thread sleeps in a futex: as it does for mutexes, conditions, semaphores, barriers and the ends of threads. */
static inline void until_asleep(int tid) {
    char stat[256], call[64];
    for (;; sched_yield()) {
        read_of_thread(tid, "stat", stat, sizeof stat);
        const char *name_end = strrchr(stat, ')');
        if (name_end == NULL || strncmp(name_end, ") S", 3) != 0) continue;
        read_of_thread(tid, "syscall", call, sizeof call);
        /* Who may not read the call has the state alone. */
        if (call[0] == 0 || atoi(call) == SYS_futex) return;
    }
}

#endif
