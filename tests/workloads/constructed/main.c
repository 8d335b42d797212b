/* Opens a library whose constructor waits for threads that start threads; and asks for the loader's errors after it has started and done other things.
 * Prints `ok`. */
#include "work.h"
#include <dlfcn.h>
#include <signal.h>

static void *thread(void *unused) {
    return unused;
}

static void expect_error(const char *what) {
    const char *error = dlerror();
    if (!error || !strstr(error, what)) {
        printf("no error of %s but %s\n", what, error ? error : "none");
        exit(1);
    }
    CHECK(dlerror() == NULL);
}

int main(void) {
    char path[4096];
    pthread_t id;
    struct sigaction action = {.sa_handler = SIG_IGN};
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 32);
    CHECK(length > 0);
    path[length] = 0;
    char *name = strrchr(path, '/') + 1;
    strcpy(name, "missing1.so");
    CHECK(!dlopen(path, RTLD_NOW));
    CHECK(pthread_create(&id, NULL, thread, NULL) == 0 && pthread_join(id, NULL) == 0);
    expect_error("missing1.so");
    strcpy(name, "missing2.so");
    CHECK(!dlopen(path, RTLD_NOW));
    CHECK(sigaction(SIGUSR1, &action, NULL) == 0);
    expect_error("missing2.so");
    strcpy(name, "plugin.so");
    void *library = dlopen(path, RTLD_NOW);
    CHECK(library && !dlerror());
    CHECK(!dlsym(library, "missing3"));
    CHECK(pthread_create(&id, NULL, thread, NULL) == 0 && pthread_join(id, NULL) == 0);
    expect_error("missing3");
    CHECK(dlclose(library) == 0);
    /* What the program was started with is never unloaded: it can be closed too often. */
    library = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
    CHECK(library && dlclose(library) == 0 && dlclose(library) != 0);
    expect_error("not open");
    puts("ok");
    return 0;
}
