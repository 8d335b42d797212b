/* Functions with the names that PyTorch gives to its operators, nested as there.
 *
 * operators --seconds S
 * Prints the CPU time in nanoseconds that was spent inside of each, what it called left out: `add=`, `addmm=`, `none=`; and `linear=`, with all
 * that it called. */
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>

static long long cpu_ns() {
    timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * 1000000000LL + now.tv_nsec;
}

/* Time by place; the innermost one has it. */
static long long add_ns, addmm_ns, none_ns, linear_ns;
static volatile uint64_t sink;

/* Keeps the call that made it from being the last thing that its caller does, which would be a jump. */
static long long returned(long long ns) {
    sink = sink + 1;
    return ns;
}

static __attribute__((noinline)) long long spin(long milliseconds) {
    long long start = cpu_ns(), now;
    do {
        for (int i = 0; i < 1000; i++) sink = sink * 6364136223846793005ull + 1442695040888963407ull;
        now = cpu_ns();
    } while (now - start < milliseconds * 1000000LL);
    return now - start;
}

namespace at {
namespace native {
__attribute__((noinline)) long long gemm_kernel(long milliseconds) { return returned(spin(milliseconds)); }
}
namespace _ops {
struct add__Tensor {
    static __attribute__((noinline)) long long call(long milliseconds) { return returned(spin(milliseconds)); }
};
struct addmm {
    static __attribute__((noinline)) long long redispatch(long milliseconds) {
        return returned(native::gemm_kernel(milliseconds));
    }
    static __attribute__((noinline)) long long call(long milliseconds) { return returned(redispatch(milliseconds)); }
};
struct linear {
    static __attribute__((noinline)) long long call() {
        long long start = cpu_ns();
        addmm_ns += addmm::call(6);
        add_ns += add__Tensor::call(2);
        return cpu_ns() - start;
    }
};
}
}

int main(int argc, char **argv) {
    double seconds = argc > 2 ? atof(argv[2]) : 1;
    while (cpu_ns() < seconds * 1e9) {
        linear_ns += at::_ops::linear::call();
        none_ns += spin(2);
    }
    printf("add=%lld\naddmm=%lld\nnone=%lld\nlinear=%lld\n", add_ns, addmm_ns, none_ns, linear_ns);
    return 0;
}
