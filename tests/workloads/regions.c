// What a program says of itself by rsys.h, and by the original's interface.
//
// regions own: everything of rsys.h once. regions original: everything of the original's interface once, where anything answers.
// regions many N: N regions in a loop, with their nanoseconds. regions fork: a region that is open at a fork.
#include "work.h"

#include "../../user/include/rsys.h"

#include <sys/wait.h>

// As user/types.h of the original has it.
struct annotation {
    const char *name;
    uintptr_t type;
    void *value;
};
#define WEAK __attribute__((weak))
WEAK int rocprofsys_user_start_trace(void);
WEAK int rocprofsys_user_stop_trace(void);
WEAK int rocprofsys_user_push_region(const char *);
WEAK int rocprofsys_user_pop_region(const char *);
WEAK int rocprofsys_user_push_annotated_region(const char *, struct annotation *, size_t);
WEAK int rocprofsys_user_pop_annotated_region(const char *, struct annotation *, size_t);
WEAK int rocprofsys_user_progress(const char *);
WEAK int omnitrace_user_push_region(const char *);
WEAK int omnitrace_user_pop_region(const char *);

static uint64_t range;

static void *ends_range(void *unused)
{
    rsys_name_thread("finisher");
    rsys_range_stop(range);
    return unused;
}

static void own(void)
{
    struct rsys_value values[] = {rsys_int("n", -3), rsys_uint("big", 1ull << 63), rsys_double("loss", 0.25), rsys_text("file", "a b")};
    pthread_t thread;
    rsys_range_pop();
    range = rsys_range_start("from thread to thread");
    rsys_range_push_with("outer", values, 4);
    for (int i = 0; i < 3; i++) {
        rsys_range_push("inner");
        rsys_counter("queue", i + 0.5);
        rsys_range_pop();
    }
    rsys_mark("a mark");
    CHECK(pthread_create(&thread, NULL, ends_range, NULL) == 0 && pthread_join(thread, NULL) == 0);
    rsys_range_pop();
    printf("recording=%d\n", rsys_is_recording());
    rsys_pause();
    CHECK(!rsys_is_recording());
    rsys_range_push("in a pause");
    rsys_range_pop();
    rsys_resume();
}

static void original(void)
{
    double tolerance = 0.5;
    int number = -7;
    struct annotation list[] = {{"tolerance", 5, &tolerance}, {"number", 7, &number}, {"text", 1, (void *)"words"}, {NULL, 0, NULL}};
    CHECK(rocprofsys_user_push_region("outer") == 0 && omnitrace_user_push_region("inner") == 0);
    CHECK(omnitrace_user_pop_region("inner") == 0 && rocprofsys_user_pop_region("outer") == 0);
    CHECK(rocprofsys_user_push_annotated_region("annotated", list, 4) == 0);
    CHECK(rocprofsys_user_pop_annotated_region("annotated", list, 4) == 0);
    CHECK(rocprofsys_user_progress("step") == 0);
    CHECK(rocprofsys_user_stop_trace() == 0 && rocprofsys_user_push_region("in a pause") == 0);
    CHECK(rocprofsys_user_pop_region("in a pause") == 0 && rocprofsys_user_start_trace() == 0);
}

int main(int argc, char **argv)
{
    CHECK(argc >= 2);
    if (strcmp(argv[1], "own") == 0) {
        own();
    } else if (strcmp(argv[1], "original") == 0) {
        original();
    } else if (strcmp(argv[1], "many") == 0) {
        long count = atol(argv[2]);
        double begin = clock_seconds(CLOCK_MONOTONIC);
        for (long i = 0; i < count; i++) {
            rsys_range_push("many");
            rsys_range_pop();
        }
        printf("range_ns=%.2f\n", 1e9 * (clock_seconds(CLOCK_MONOTONIC) - begin) / count);
    } else {
        rsys_range_push("before");
        pid_t child = fork();
        if (child == 0) {
            rsys_range_push("in the child");
            burn(0.1);
            rsys_range_pop();
            rsys_range_pop();
            exit(0);
        }
        int status;
        CHECK(waitpid(child, &status, 0) == child && status == 0);
        rsys_range_pop();
    }
    return 0;
}
