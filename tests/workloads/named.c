/* Threads with names that live for a moment: named. One thread names itself and ends, one names itself and is there at the end, one has
 * the name of its maker; the first thread takes another name just before it ends the process. */
#include "work.h"
#include <sys/prctl.h>

static pthread_barrier_t worked;

static void *ends(void *unused) {
    (void)unused;
    CHECK(pthread_setname_np(pthread_self(), "named-ends") == 0);
    burn(0.03);
    pthread_barrier_wait(&worked);
    return NULL;
}

static void *stays(void *unused) {
    (void)unused;
    burn(0.03);
    CHECK(prctl(PR_SET_NAME, "named-stays") == 0);
    pthread_barrier_wait(&worked);
    for (;;) pause();
}

static void *inherits(void *unused) {
    (void)unused;
    burn(0.03);
    pthread_barrier_wait(&worked);
    for (;;) pause();
}

int main(void) {
    pthread_t ids[3];
    void *(*const routines[])(void *) = {ends, stays, inherits};
    CHECK(pthread_barrier_init(&worked, NULL, 4) == 0);
    for (int i = 0; i < 3; i++) CHECK(pthread_create(&ids[i], NULL, routines[i], NULL) == 0);
    burn(0.03);
    pthread_barrier_wait(&worked);
    CHECK(pthread_join(ids[0], NULL) == 0);
    CHECK(pthread_setname_np(pthread_self(), "named-last") == 0);
    return 0;
}
