/* Works and waits below functions of its own, of a library and of a plug-in: what the build leaves of their unwind tables is what stacks depend on. */
#include "work.h"
#include <dlfcn.h>
#include <limits.h>

typedef void (*callback)(int);
void library_outer(callback, int);

static __attribute__((noinline)) void own_inner(int depth) {
    if (depth > 0) {
        own_inner(depth - 1);
    } else {
        struct timespec t = {0, 300000000};
        burn(0.3);
        nanosleep(&t, NULL);
    }
    __asm__ volatile("");
}

__attribute__((noinline)) void own_outer(callback plugin_outer) {
    library_outer(own_inner, 3);
    plugin_outer(3);
    __asm__ volatile("");
}

int main(int argc, char **argv) {
    char path[PATH_MAX];
    (void)argc;
    snprintf(path, sizeof path, "%.*s/pluginouter.so", (int)(strrchr(argv[0], '/') - argv[0]), argv[0]);
    void *plugin = dlopen(path, RTLD_NOW);
    if (plugin == NULL) return fprintf(stderr, "%s\n", dlerror()), 1;
    callback outer;
    *(void **)&outer = dlsym(plugin, "plugin_outer");
    own_outer(outer);
    return 0;
}
