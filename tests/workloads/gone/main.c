/* Code whose files are hard to find: a program that removed its own file, and a library that is opened by a path below the folder that the program is in, and
   closed soon. gone FOLDER runs a copy of itself there, which removes itself. */
#include "work.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/sendfile.h>
#include <sys/stat.h>

static void copy(const char *from, const char *to) {
    struct stat info;
    int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0700);
    CHECK(in >= 0 && out >= 0 && fstat(in, &info) == 0);
    CHECK(sendfile(out, in, NULL, (size_t)info.st_size) == info.st_size);
    close(in);
    close(out);
}

static __attribute__((noinline)) uint64_t after_removal(double seconds) { return burn(seconds) + 1; }

int main(int argc, char **argv) {
    char self[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 32);
    CHECK(length > 0);
    self[length] = 0;
    CHECK(argc > 1);
    if (strcmp(argv[1], "removed") != 0) {
        CHECK(chdir(argv[1]) == 0);
        copy(self, "program");
        strcpy(strrchr(self, '/'), "/plugin.so");
        copy(self, "plugin.so");
        execl("program", "program", "removed", NULL);
        return 1;
    }
    CHECK(unlink(self) == 0);
    uint64_t value = after_removal(1.0);
    for (int i = 0; i < 10; i++) {
        void *library = dlopen("./plugin.so", RTLD_NOW);
        CHECK(library != NULL);
        uint64_t (*plugin_work)(double) = (uint64_t (*)(double))dlsym(library, "plugin_work");
        CHECK(plugin_work != NULL);
        value += plugin_work(0.1);
        CHECK(dlclose(library) == 0);
    }
    printf("cpu=%.6f\n", process_cpu());
    return value == 0;
}
