/* Says whether its clock is faster than the kernel's, and works for half a second of CPU time. */
#include "work.h"
#include <sys/syscall.h>

int main(void) {
    struct timespec kernel, shown;
    syscall(SYS_clock_gettime, CLOCK_MONOTONIC, &kernel);
    clock_gettime(CLOCK_MONOTONIC, &shown);
    puts(shown.tv_sec > 1000 * kernel.tv_sec ? "the clock is fast" : "the clock is the kernel's");
    burn(0.5);
    return 0;
}
