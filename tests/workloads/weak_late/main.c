// Looks for a library by a weak reference in an object that is being loaded while another thread has its own libraries looked at. The argument is that
// object; it needs plugin_gate.so, which the loader fills in before it.
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mman.h>

#include "gate.h"

extern int ucp_init_version(void);

static void *open_it(void *path)
{
    void *object = dlopen(path, RTLD_NOW);
    // It has arrived in any case, also where the object cannot be loaded.
    ((volatile int *)GATE)[ARRIVED] = 1;
    return object;
}

int main(int argc, char **argv)
{
    volatile int *gate = mmap((void *)GATE, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (argc < 2 || gate != (void *)GATE)
        return 2;
    // The library is found before, for which the loader's lock is needed.
    ucp_init_version();
    pthread_t thread;
    pthread_create(&thread, NULL, open_it, argv[1]);
    while (!gate[ARRIVED])
        sched_yield();
    ucp_init_version();
    gate[OPEN] = 1;
    void *object;
    pthread_join(thread, &object);
    if (!object) {
        fprintf(stderr, "%s\n", dlerror());
        return 2;
    }
    ucp_init_version();
    int (*is_there)(void) = (int (*)(void))dlsym(object, "is_there");
    printf("ucp_get_nbx %s\n", is_there() ? "present" : "absent");
    return 0;
}
