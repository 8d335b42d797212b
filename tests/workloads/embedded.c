/* A program that opens a Python interpreter late, as a library: embedded LIBPYTHON SCRIPT [THREADS]
 *
 * With THREADS, so many threads of its own run the script's function `work` through PyGILState_Ensure, and go back to C between the
 * calls. Then the interpreter ends, starts again, and runs the script once more. Prints what the script prints. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "work.h"

static int (*run_string)(const char *, void *);
static int (*ensure)(void);
static void (*release)(int);

static void *worker(void *argument) {
    (void)argument;
    for (int call = 0; call < 20; call++) {
        int state = ensure();
        CHECK(run_string("work()", NULL) == 0);
        release(state);
    }
    return NULL;
}

static void *find(void *library, const char *name) {
    void *found = dlsym(library, name);
    CHECK(found != NULL);
    return found;
}

int main(int count, char **words) {
    CHECK(count >= 3);
    /* Some time without Python first. */
    volatile unsigned long before = 0;
    for (unsigned long step = 0; step < 50000000; step++) before += step;
    void *library = dlopen(words[1], RTLD_NOW | RTLD_GLOBAL);
    if (library == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    void (*initialize)(int) = find(library, "Py_InitializeEx");
    void *(*save)(void) = find(library, "PyEval_SaveThread");
    void (*restore)(void *) = find(library, "PyEval_RestoreThread");
    int (*finalize)(void) = find(library, "Py_FinalizeEx");
    run_string = find(library, "PyRun_SimpleStringFlags");
    ensure = find(library, "PyGILState_Ensure");
    release = find(library, "PyGILState_Release");
    initialize(0);
    CHECK(run_string(words[2], NULL) == 0);
    int threads = count > 3 ? atoi(words[3]) : 0;
    pthread_t ids[16];
    CHECK(threads <= 16);
    void *state = save();
    for (int at = 0; at < threads; at++) CHECK(pthread_create(&ids[at], NULL, worker, NULL) == 0);
    for (int at = 0; at < threads; at++) CHECK(pthread_join(ids[at], NULL) == 0);
    restore(state);
    CHECK(finalize() == 0);
    initialize(0);
    CHECK(run_string(words[2], NULL) == 0);
    CHECK(finalize() == 0);
    return 0;
}
