// A program of OpenCL: kernels on one queue, copies and fills around them. Kernels have no effect on a simulated GPU. Prints what it did.
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

#define CL(call)                                                            \
    do {                                                                    \
        cl_int status_ = (call);                                            \
        if (status_ != CL_SUCCESS) {                                        \
            fprintf(stderr, "%s:%d: %s: %d\n", __FILE__, __LINE__, #call, status_); \
            exit(1);                                                        \
        }                                                                   \
    } while (0)

enum { KERNELS = 50, COUNT = 1 << 12 };

static const char *const SOURCE = "__kernel void scale_cl(__global float *data, float by) { data[get_global_id(0)] *= by; }\n"
                                  "__kernel void shift_cl(__global float *data, float by) { data[get_global_id(0)] += by; }\n";

int main(void)
{
    cl_platform_id platform;
    cl_device_id device;
    cl_int status;
    char name[256];
    CL(clGetPlatformIDs(1, &platform, NULL));
    CL(clGetDeviceIDs(platform, CL_DEVICE_TYPE_GPU, 1, &device, NULL));
    CL(clGetDeviceInfo(device, CL_DEVICE_NAME, sizeof name, name, NULL));
    cl_context context = clCreateContext(NULL, 1, &device, NULL, NULL, &status);
    CL(status);
    cl_command_queue queue = clCreateCommandQueue(context, device, 0, &status);
    CL(status);
    cl_program program = clCreateProgramWithSource(context, 1, (const char **)&SOURCE, NULL, &status);
    CL(status);
    if (clBuildProgram(program, 1, &device, "", NULL, NULL) != CL_SUCCESS) {
        static char log[1 << 16];
        clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, sizeof log, log, NULL);
        fprintf(stderr, "%s\n", log);
        return 1;
    }
    cl_kernel kernels[2] = {clCreateKernel(program, "scale_cl", &status), clCreateKernel(program, "shift_cl", &status)};
    CL(status);
    static float data[COUNT];
    cl_mem buffer = clCreateBuffer(context, CL_MEM_READ_WRITE, sizeof data, NULL, &status);
    CL(status);
    CL(clEnqueueWriteBuffer(queue, buffer, CL_TRUE, 0, sizeof data, data, 0, NULL, NULL));
    for (int i = 0; i < KERNELS; i++) {
        float by = (float)i;
        size_t size = COUNT;
        CL(clSetKernelArg(kernels[i % 2], 0, sizeof buffer, &buffer));
        CL(clSetKernelArg(kernels[i % 2], 1, sizeof by, &by));
        CL(clEnqueueNDRangeKernel(queue, kernels[i % 2], 1, NULL, &size, NULL, 0, NULL, NULL));
    }
    CL(clFinish(queue));
    CL(clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, sizeof data, data, 0, NULL, NULL));
    CL(clReleaseMemObject(buffer));
    CL(clReleaseCommandQueue(queue));
    CL(clReleaseContext(context));
    printf("device=%s\nkernels=%d\n", name, KERNELS);
    return 0;
}
