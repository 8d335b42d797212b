/* Makes itself undumpable, so that only root may look at it, and waits to be killed. */
#include "work.h"
#include <sys/prctl.h>

int main(void) {
    CHECK(prctl(PR_SET_DUMPABLE, 0) == 0);
    for (;;) pause();
}
