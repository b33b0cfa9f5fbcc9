/* Launches. Code for a GPU cannot run here: a kernel of ours takes its place in the stream, and GPU time. */
#include <string.h>

#include "cudart/driver.h"
#include "cudart/functions.h"
#include "cudart/registration.h"
#include "cudart/runtime.h"
#include "cudart/thread.h"

/* What a thread of a kernel takes: as if it read and wrote 32 bytes, of 1.3 TB each second. */
#define PS_A_THREAD 25

static uint64_t time_of(const struct rt_function *function, dim3 grid, dim3 block, void **args)
{
    uint64_t cycles;
    if (function->spins && args && args[0]) {
        memcpy(&cycles, args[0], sizeof cycles);
        return cycles; /* of 1 GHz */
    }
    uint64_t threads = (uint64_t)grid.x * grid.y * grid.z * block.x * block.y * block.z;
    return threads * PS_A_THREAD / 1000;
}

struct launch {
    dim3 grid, block;
    size_t shared;
    CUstream stream;
    CUlaunchAttribute *attributes;
    unsigned int attribute_count;
    int cooperative;
};

static CUresult submit(const struct launch *l, CUfunction code, void **args)
{
    if (l->attribute_count) {
        CUlaunchConfig config = {.gridDimX = l->grid.x,
                                 .gridDimY = l->grid.y,
                                 .gridDimZ = l->grid.z,
                                 .blockDimX = l->block.x,
                                 .blockDimY = l->block.y,
                                 .blockDimZ = l->block.z,
                                 .sharedMemBytes = (unsigned int)l->shared,
                                 .hStream = l->stream,
                                 .attrs = l->attributes,
                                 .numAttrs = l->attribute_count};
        return rt_stream_driver.cuLaunchKernelEx(&config, code, args, NULL);
    }
    if (l->cooperative) {
        return rt_stream_driver.cuLaunchCooperativeKernel(code, l->grid.x, l->grid.y, l->grid.z,
                                                          l->block.x, l->block.y, l->block.z,
                                                          (unsigned int)l->shared, l->stream, args);
    }
    return rt_stream_driver.cuLaunchKernel(code, l->grid.x, l->grid.y, l->grid.z, l->block.x,
                                           l->block.y, l->block.z, (unsigned int)l->shared,
                                           l->stream, args, NULL);
}

static cudaError_t launch(const void *host, const struct launch *l, void **args)
{
    CUkernel kernel;
    RT_TRY(rt_context());
    struct rt_function *function = rt_function(host);
    if (!function) {
        return rt_end(cudaErrorInvalidDeviceFunction);
    }
    if (function->kernel) {
        return rt_end((cudaError_t)submit(l, (CUfunction)function->kernel, args));
    }
    uint64_t ns = time_of(function, l->grid, l->block, args);
    void *own_args[] = {&ns};
    RT_TRY(rt_opaque(&kernel));
    cudaError_t result = (cudaError_t)submit(l, (CUfunction)kernel, own_args);
    /* The driver says of a bad grid what it says of any bad argument. */
    return rt_end(result == cudaErrorInvalidValue ? cudaErrorInvalidConfiguration : result);
}

RT_CALL(RT_SZ(cudaLaunchKernel), const void *host, dim3 grid, dim3 block, void **args,
        size_t shared, CUstream stream)
{
    struct launch l = {.grid = grid, .block = block, .shared = shared, .stream = stream};
    return launch(host, &l, args);
}

RT_CALL(RT_SZ(cudaLaunchCooperativeKernel), const void *host, dim3 grid, dim3 block, void **args,
        size_t shared, CUstream stream)
{
    struct launch l = {
        .grid = grid, .block = block, .shared = shared, .stream = stream, .cooperative = 1};
    return launch(host, &l, args);
}

RT_CALL(RT_SZ(cudaLaunchKernelExC), const cudaLaunchConfig_t *config, const void *host, void **args)
{
    struct launch l = {.grid = config->gridDim,
                       .block = config->blockDim,
                       .shared = config->dynamicSmemBytes,
                       .stream = config->stream,
                       .attributes = config->attrs,
                       .attribute_count = config->numAttrs};
    return launch(host, &l, args);
}

/* What the compiler of 13 calls for a launch in the program's source. */
RT_CALL(RT_SZ(__cudaLaunchKernel), CUkernel kernel, dim3 grid, dim3 block, void **args,
        size_t shared, CUstream stream)
{
    struct launch l = {.grid = grid, .block = block, .shared = shared, .stream = stream};
    return launch(kernel, &l, args);
}

RT_CALL(RT_SZ(cudaLaunchHostFunc), CUstream stream, CUhostFn function, void *data)
{
    RT_PASS(rt_stream_driver.cuLaunchHostFunc(stream, function, data));
}

RT_CALL(RT_SZ(cudaGraphLaunch), CUgraphExec exec, CUstream stream)
{
    RT_PASS(rt_stream_driver.cuGraphLaunch(exec, stream));
}

RT_CALL(RT_SZ(cudaGraphUpload), CUgraphExec exec, CUstream stream)
{
    RT_PASS(rt_stream_driver.cuGraphUpload(exec, stream));
}
