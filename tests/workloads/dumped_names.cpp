/* One thread that waits in a method of a template, which an inlined function calls. Prints `ready PID`, and ends by SIGTERM. */
#include "work.h"
#include <signal.h>
#include <unistd.h>

namespace shop {
template <class Item> struct Box {
    Item item;
    __attribute__((noinline)) void waits() {
        sigset_t end;
        int signal;
        sigemptyset(&end);
        sigaddset(&end, SIGTERM);
        CHECK(sigwait(&end, &signal) == 0);
        item++;
    }
};
}

__attribute__((always_inline)) static inline int inlined_here(shop::Box<int> &box) {
    box.waits();
    return box.item;
}

__attribute__((noinline)) static int outlined_here(shop::Box<int> &box) { return 2 * inlined_here(box); }

int main() {
    sigset_t end;
    sigemptyset(&end);
    sigaddset(&end, SIGTERM);
    CHECK(sigprocmask(SIG_BLOCK, &end, nullptr) == 0);
    printf("ready %d\n", getpid());
    fflush(stdout);
    shop::Box<int> box{0};
    return outlined_here(box) == 2 ? 0 : 1;
}
