/* Starts a thread when it is loaded. */
#include "work.h"

static pthread_t thread;

static void *early_worker(void *unused) {
    (void)unused;
    pthread_setname_np(pthread_self(), "early");
    burn(0.3);
    return NULL;
}

static __attribute__((constructor)) void start(void) { CHECK(pthread_create(&thread, NULL, early_worker, NULL) == 0); }

void early_join(void) { pthread_join(thread, NULL); }
