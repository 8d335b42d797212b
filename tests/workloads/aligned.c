/* Vector loops with over-aligned locals beside arrays of variable length, whose frames GCC addresses through a register of its own
 * and clang through two: aligned [--seconds S]. */
#include "work.h"
#include <alloca.h>

#define N 512
#define HIDDEN __attribute__((noinline))

static float from[N], to[N];

HIDDEN static float smooth(const float *in, float *out, int n, int depth);

HIDDEN static float with_array(float *values, int n, int depth) {
    float copy[n], sum = 0;
    for (int i = 0; i < n; i++) copy[i] = values[i] * 0.5f + 1.0f;
    if (depth > 0) sum = smooth(copy, values, n, depth - 1);
    for (int i = 0; i < n; i++) sum += copy[i];
    return sum;
}

HIDDEN static float smooth(const float *in, float *out, int n, int depth) {
    _Alignas(64) float block[64];
    float *room = alloca((size_t)n * sizeof *room);
    float sum = 0;
    for (int i = 0; i < n; i++) room[i] = in[i] * 0.25f + (float)depth;
    for (int round = 0; round < 30; round++)
        for (int i = 0; i < n; i++) {
            block[i % 64] = room[i] * 0.99f + block[(i + 7) % 64] * 0.01f;
            room[i] = block[i % 64] + 0.5f;
        }
    for (int i = 0; i < n; i++) out[i] = room[i];
    sum += with_array(room, n, depth);
    for (int i = 0; i < 64; i++) sum += block[i];
    return sum;
}

int main(int argc, char **argv) {
    double end = thread_cpu() + option(argc, argv, "--seconds", 0.4), sum = 0;
    for (int i = 0; i < N; i++) from[i] = (float)(i % 17);
    while (thread_cpu() < end) sum += (double)smooth(from, to, N, 6);
    printf("cpu=%.6f finite=%d\n", process_cpu(), sum == sum);
    return 0;
}
