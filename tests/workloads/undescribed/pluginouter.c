/* Works below functions of a plug-in. */
#include "work.h"

static __attribute__((noinline)) void plugin_inner(int depth) {
    if (depth > 0) plugin_inner(depth - 1);
    else burn(0.3);
    __asm__ volatile("");
}

void plugin_outer(int depth) {
    plugin_inner(depth);
    __asm__ volatile("");
}
