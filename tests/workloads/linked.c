/* One library under several names, and calls through stubs.
 *
 * With -DLIBRARY -shared -fPIC: the library. Else: linked LIBRARY opens it by that name, computes in it, and reads. */
#include "work.h"
#include <dlfcn.h>
#include <fcntl.h>

#ifdef LIBRARY
/* Called through the stub, for another library might have one of this name. */
__attribute__((noinline)) int tiny(int value) { return value + 1; }

__attribute__((noinline)) int computes(double seconds) {
    int value = 0;
    for (double end = clock_seconds(CLOCK_THREAD_CPUTIME_ID) + seconds; clock_seconds(CLOCK_THREAD_CPUTIME_ID) < end;)
        for (int i = 0; i < 100000; i++) value = tiny(tiny(tiny(tiny(value))));
    return value;
}
#else
int main(int argc, char **argv) {
    static char block[1 << 16];
    CHECK(argc == 2);
    void *library = dlopen(argv[1], RTLD_NOW);
    CHECK(library != NULL);
    int (*computes)(double) = (int (*)(double))dlsym(library, "computes");
    CHECK(computes != NULL);
    computes(0.6);
    int zeros = open("/dev/zero", O_RDONLY);
    for (double end = clock_seconds(CLOCK_THREAD_CPUTIME_ID) + 0.1; clock_seconds(CLOCK_THREAD_CPUTIME_ID) < end;)
        CHECK(read(zeros, block, sizeof block) == sizeof block);
    return 0;
}
#endif
