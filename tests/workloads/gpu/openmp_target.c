// Offloaded regions of OpenMP. Kernels have no effect on a simulated GPU, so only their number can be checked. Prints what it did.
#include <omp.h>
#include <stdio.h>

enum { REGIONS = 40, COUNT = 1 << 12 };

static float data[COUNT];

int main(void)
{
    if (omp_get_num_devices() < 1) {
        fprintf(stderr, "no device\n");
        return 1;
    }
#pragma omp target data map(tofrom : data)
    for (int region = 0; region < REGIONS; region++) {
#pragma omp target teams distribute parallel for
        for (int i = 0; i < COUNT; i++)
            data[i] = data[i] * 2 + (float)region;
    }
    printf("devices=%d\nregions=%d\n", omp_get_num_devices(), REGIONS);
    return 0;
}
