/* Libraries that come and go: dlstorm --cycles N [--alone 1]. Opens copies of plugin.so, calls into them, closes them. */
#include "work.h"
#include <dlfcn.h>
#include <limits.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <fcntl.h>

#define COPIES 4

static volatile int stop;

/* Other threads keep being sampled while the list of libraries changes under them. */
static void *bystander(void *unused) {
    (void)unused;
    while (!stop) burn(0.001);
    return NULL;
}

static void copy(const char *from, const char *to) {
    struct stat info;
    int in = open(from, O_RDONLY), out = open(to, O_WRONLY | O_CREAT | O_TRUNC, 0700);
    CHECK(in >= 0 && out >= 0 && fstat(in, &info) == 0);
    CHECK(sendfile(out, in, NULL, (size_t)info.st_size) == info.st_size);
    close(in);
    close(out);
}

int main(int argc, char **argv) {
    int cycles = (int)option(argc, argv, "--cycles", 200);
    char self[PATH_MAX], folder[] = "/tmp/rsys-dlstorm-XXXXXX", paths[COPIES][64];
    ssize_t length = readlink("/proc/self/exe", self, sizeof self - 32);
    CHECK(length > 0 && mkdtemp(folder) != NULL);
    self[length] = 0;
    strcpy(strrchr(self, '/'), "/plugin.so");
    for (int i = 0; i < COPIES; i++) {
        snprintf(paths[i], sizeof paths[i], "%s/plugin-%d.so", folder, i);
        copy(self, paths[i]);
    }
    int alone = (int)option(argc, argv, "--alone", 0);
    pthread_t thread;
    if (!alone) CHECK(pthread_create(&thread, NULL, bystander, NULL) == 0);
    uint64_t value = 1;
    for (int cycle = 0; cycle < cycles; cycle++) {
        void *library = dlopen(paths[cycle % COPIES], RTLD_NOW);
        if (library == NULL) fprintf(stderr, "%s\n", dlerror());
        CHECK(library != NULL);
        uint64_t (*plugin_work)(uint64_t) = (uint64_t (*)(uint64_t))dlsym(library, "plugin_work");
        CHECK(plugin_work != NULL);
        value = plugin_work(value);
        CHECK(dlclose(library) == 0);
    }
    stop = 1;
    if (!alone) pthread_join(thread, NULL);
    for (int i = 0; i < COPIES; i++) unlink(paths[i]);
    rmdir(folder);
    printf("done=%d cpu=%.6f\n", cycles, process_cpu());
    return value == 0;
}
