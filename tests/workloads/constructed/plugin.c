/* Its constructor waits for a thread that starts another one. */
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>

static void *inner(void *unused) {
    return unused;
}

static void *outer(void *unused) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, inner, unused) != 0 || pthread_join(thread, NULL) != 0) abort();
    return NULL;
}

__attribute__((constructor)) static void start(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, outer, NULL) != 0 || pthread_join(thread, NULL) != 0) abort();
}
