/* A library that works for some time. */
#include "work.h"

uint64_t plugin_work(double seconds) { return burn(seconds) + 1; }
