// What landing.rs steps through: exceptions that leave frames with and without destructors, of many shapes. Stops itself with int3
// at the beginning and at the end of main, when it has thrown each once: finding the tables takes most of the first time.
#include <alloca.h>
#include <stdexcept>
#include <string>

#define NOINLINE __attribute__((noinline))

static volatile long sink;

struct Witness {
    long value;
    explicit Witness(long value) : value(value) { sink = sink + value; }
    NOINLINE ~Witness() { sink = sink - value; }
};

NOINLINE static long thrower(long depth) {
    Witness witness(depth);
    if (depth == 0) throw std::runtime_error("the innermost");
    return thrower(depth - 1) + witness.value;
}

// Needs no destructor: the exception passes through.
NOINLINE static long passer(long depth) {
    long locals[40] = {depth};
    sink = sink + locals[depth & 31];
    return depth == 0 ? thrower(2) + locals[1] : passer(depth - 1) + locals[2];
}

NOINLINE static long aligned(long size) {
    alignas(64) long block[16] = {size};
    char *some = (char *)alloca((size_t)size);
    Witness witness(size);
    some[0] = (char)block[size & 15];
    sink = sink + some[0];
    return passer(2) + block[1] + some[0];
}

// Catches, cleans up, and throws again.
NOINLINE static long rethrower() {
    Witness outer(1);
    try {
        Witness inner(2);
        return aligned(100);
    } catch (const std::exception &) {
        Witness third(3);
        throw;
    }
}

NOINLINE static long catcher() {
    try {
        return rethrower();
    } catch (const std::runtime_error &error) {
        return error.what()[0];
    }
}

extern "C" char __start_main_code[], __stop_main_code[];

__attribute__((section("main_code"))) int main() {
    sink = catcher();
    __asm__ volatile("int3" : : "a"(__start_main_code), "d"(__stop_main_code));
    sink = catcher();
    __asm__ volatile("int3");
    return 0;
}
