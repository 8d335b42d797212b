// What `dlsym` finds for whom, line by line. With wrapped functions it must be the same as without.
//
// lookups USER: USER is a library that is linked with pluginone.so and loaded for itself alone.
#include "work.h"

#include <dlfcn.h>
#include <libgen.h>

int answer(void);

static void *found(const char *what, void *handle, const char *name)
{
    void *address = dlsym(handle, name);
    const char *error = dlerror();
    printf("%s: %s, %s\n", what, address ? "found" : "not found", error ? error : "no error");
    CHECK(dlerror() == NULL);
    return address;
}

static int call(void *function)
{
    return function ? ((int (*)(void))function)() : -1;
}

static void *open_beside(const char *program, const char *name)
{
    char path[4096], copy[4096];
    snprintf(copy, sizeof copy, "%s", program);
    snprintf(path, sizeof path, "%s/%s", dirname(copy), name);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    CHECK(handle);
    return handle;
}

int main(int argc, char **argv)
{
    char path[4096];
    CHECK(argc == 2);
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    CHECK(length > 0);
    path[length] = 0;

    // 1 of the first library, 41 of the second behind it.
    printf("linked: %d\n", answer());
    printf("default: %d\n", call(found("default", RTLD_DEFAULT, "answer")));
    printf("next of the program: %d\n", call(found("next", RTLD_NEXT, "answer")));
    found("nowhere", RTLD_DEFAULT, "no_such_function_anywhere");
    found("next nowhere", RTLD_NEXT, "no_such_function_anywhere");
    found("RCCL is not there", RTLD_DEFAULT, "ncclGroupStart");
    found("nor behind", RTLD_NEXT, "ncclAllGather");

    // Each library has functions of its own under the same names.
    void *one = open_beside(path, "pluginone.so"), *two = open_beside(path, "plugintwo.so");
    printf("one: %d\n", call(found("one", one, "ncclGroupStart")));
    printf("two: %d\n", call(found("two", two, "ncclGroupStart")));
    printf("one again: %d\n", call(found("one", one, "ncclGroupStart")));
    printf("two again: %d\n", call(found("two", two, "ncclGroupStart")));
    printf("one's end: %d\n", call(found("one", one, "ncclGroupEnd")));
    CHECK(found("one", one, "ncclGroupEnd") == found("one", one, "ncclGroupEnd"));
    found("two has no end", two, "ncclGroupEnd");
    found("one marks", one, "roctxMarkA");
    found("two does not", two, "roctxMarkA");
    found("neither has it", one, "ncclAllReduce");
    found("the program", dlopen(NULL, RTLD_NOW), "answer");
    CHECK(dlvsym(RTLD_DEFAULT, "dlclose", "GLIBC_2.2.5") || dlvsym(RTLD_DEFAULT, "dlclose", "GLIBC_2.17"));

    // Who asks counts: the plugin sees itself, though the program does not.
    found("from outside", RTLD_DEFAULT, "only_in_plugin");
    printf("from inside: %d\n", call(found("inside", one, "ask_inside")));
    printf("next inside: %d\n", call(found("inside", one, "ask_next")));

    // A library that nobody else sees, and one that it is linked with.
    void *user = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    CHECK(user);
    printf("through the user: %d\n", call(found("user", user, "use")));

    // What was once asked for may go and come back.
    CHECK(dlclose(two) == 0);
    two = open_beside(path, "plugintwo.so");
    printf("two came back: %d\n", call(found("two", two, "ncclGroupStart")));
    return 0;
}
