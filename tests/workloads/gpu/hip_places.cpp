// Calls that block, each kind from a function of its own, ROUNDS times: hip_places ROUNDS
//
// Prints `FUNCTION=` and the line of the call in it.
#include <hip/hip_runtime.h>

#include <cstdio>
#include <cstdlib>

#include "check.h"

// A function that makes one call, and the line of that call.
#define PLACE(name, call)                                \
    __attribute__((noinline)) static int name()          \
    {                                                    \
        HIP(call);                                       \
        return __LINE__;                                 \
    }

static const size_t BYTES = 100000;
static char host[BYTES];
static void *device, *managed, *pinned;
static hipEvent_t event;

__global__ void touch(int *data) { data[threadIdx.x] *= 3; }

PLACE(allocate, hipMalloc(&device, BYTES))
PLACE(allocate_managed, hipMallocManaged(&managed, BYTES, hipMemAttachGlobal))
PLACE(allocate_pinned, hipHostMalloc(&pinned, BYTES, 0))
PLACE(upload, hipMemcpy(device, host, BYTES, hipMemcpyHostToDevice))
PLACE(download, hipMemcpy(host, device, BYTES, hipMemcpyDeviceToHost))
PLACE(wait_for_device, hipDeviceSynchronize())
PLACE(wait_for_stream, hipStreamSynchronize(nullptr))
PLACE(wait_for_event, hipEventSynchronize(event))
PLACE(release, hipFree(device))
PLACE(release_managed, hipFree(managed))
PLACE(release_pinned, hipHostFree(pinned))

static void launch()
{
    hipLaunchKernelGGL(touch, dim3(4), dim3(64), 0, nullptr, (int *)device);
    HIP(hipGetLastError());
}

int main(int argc, char **argv)
{
    int lines[11];
    HIP(hipEventCreate(&event));
    for (int round = argc > 1 ? atoi(argv[1]) : 1; round > 0; round--) {
        lines[0] = allocate();
        lines[1] = allocate_managed();
        lines[2] = allocate_pinned();
        lines[3] = upload();
        launch();
        lines[4] = wait_for_device();
        launch();
        lines[5] = wait_for_stream();
        launch();
        HIP(hipEventRecord(event, nullptr));
        lines[6] = wait_for_event();
        lines[7] = download();
        lines[8] = release();
        lines[9] = release_managed();
        lines[10] = release_pinned();
    }
    HIP(hipEventDestroy(event));
    printf("allocate=%d\nallocate_managed=%d\nallocate_pinned=%d\nupload=%d\n", lines[0], lines[1], lines[2], lines[3]);
    printf("wait_for_device=%d\nwait_for_stream=%d\nwait_for_event=%d\n", lines[4], lines[5], lines[6]);
    printf("download=%d\nrelease=%d\nrelease_managed=%d\nrelease_pinned=%d\n", lines[7], lines[8], lines[9], lines[10]);
    return 0;
}
