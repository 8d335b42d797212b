// Every function of NVTX that makes ranges, marks and names, called through the tables that a tool fills in, as the headers of version 3 do it:
// by hand, for the headers belong to no distribution. Without a tool nothing happens.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <wchar.h>

typedef struct {
    uint16_t version, size;
    uint32_t category;
    int32_t color_type;
    uint32_t color;
    int32_t payload_type, reserved;
    union { uint64_t as_uint; int64_t as_int; double as_double; float as_float; } payload;
    int32_t message_type;
    const void *message;
} attributes;

typedef void (*function)(void);
static function core[16], core2[16];
static function *core_table[16], *core2_table[16];

static int get_table(int module, function ***table, unsigned *size) {
    *table = module == 1 ? core_table : module == 5 ? core2_table : 0;
    *size = *table ? 16 : 0;
    return *table != 0;
}

static struct {
    size_t size;
    int (*get)(int, function ***, unsigned *);
} callbacks = {sizeof callbacks, get_table};

static const void *export_table(uint32_t id) { return id == 1 ? &callbacks : 0; }

int main(void) {
    for (int i = 1; i < 16; i++) {
        core_table[i] = &core[i];
        core2_table[i] = &core2[i];
    }
    const char *path = getenv("NVTX_INJECTION64_PATH");
    void *library = path ? dlopen(path, RTLD_LAZY) : 0;
    int (*start)(const void *(*)(uint32_t)) = library ? (int (*)(const void *(*)(uint32_t)))dlsym(library, "InitializeInjectionNvtx2") : 0;
    if (!start || !start(export_table)) {
        puts("no tool");
        return 0;
    }
    int (*push)(const char *) = (int (*)(const char *))core[9];
    int (*push_wide)(const wchar_t *) = (int (*)(const wchar_t *))core[10];
    int (*push_ex)(const attributes *) = (int (*)(const attributes *))core[8];
    int (*pop)(void) = (int (*)(void))core[11];
    printf("levels=%d,%d", push("ascii"), push_wide(L"gr\u00fcn"));
    printf(",%d,%d", pop(), pop());
    printf(",%d\n", pop());
    attributes given = {3, sizeof given, 0, 0, 0, 6, 0, {.as_float = 0.5f}, 2, L"wide message"};
    push_ex(&given);
    pop();
    given = (attributes){3, sizeof given, 0, 0, 0, 5, 0, {.as_uint = (uint32_t)-7}, 1, "negative"};
    push_ex(&given);
    pop();
    void *(*domain_create)(const char *) = (void *(*)(const char *))core2[12];
    void *(*register_string)(void *, const char *) = (void *(*)(void *, const char *))core2[10];
    int (*domain_push)(void *, const attributes *) = (int (*)(void *, const attributes *))core2[4];
    int (*domain_pop)(void *) = (int (*)(void *))core2[5];
    void *domain = domain_create("library");
    given = (attributes){3, sizeof given, 0, 0, 0, 0, 0, {0}, 3, register_string(domain, "registered")};
    for (int i = 0; i < 5; i++) {
        domain_push(domain, &given);
        domain_pop(domain);
    }
    uint64_t (*range_start)(const char *) = (uint64_t (*)(const char *))core[5];
    void (*range_end)(uint64_t) = (void (*)(uint64_t))core[7];
    uint64_t one = range_start("one"), two = range_start("two");
    range_end(one);
    range_end(two);
    ((void (*)(uint32_t, const char *))core[14])((uint32_t)getpid(), "named by nvtx");
    return 0;
}
