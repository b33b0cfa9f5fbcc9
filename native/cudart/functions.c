/* Kernels: their attributes, how many blocks fit, and the image that replaces their code. */
#include "cudart/functions.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "cudart/driver.h"
#include "cudart/registration.h"
#include "cudart/runtime.h"
#include "cudart/thread.h"

/* What any kernel is said to need. Real ones differ; nothing here depends on it. */
enum { REGISTERS = 32, THREADS = 1024, SHARED = 48 << 10 };

/* ---- the image ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static CUkernel opaque;

static cudaError_t load(CUkernel *kernel)
{
    char path[4096];
    Dl_info info;
    CUlibrary library;
    const char *slash = NULL;
    if (dladdr((void *)load, &info) && info.dli_fname) {
        slash = strrchr(info.dli_fname, '/');
    }
    int folder = slash ? (int)(slash - info.dli_fname) : 1;
    snprintf(path, sizeof path, "%.*s/cudart.elf", folder, slash ? info.dli_fname : ".");
    cudaError_t result =
        (cudaError_t)rt_driver.cuLibraryLoadFromFile(&library, path, NULL, NULL, 0, NULL, NULL, 0);
    return result ? result : (cudaError_t)rt_driver.cuLibraryGetKernel(kernel, library, "opaque");
}

cudaError_t rt_opaque(CUkernel *kernel)
{
    cudaError_t result = cudaSuccess;
    if (!__atomic_load_n(&opaque, __ATOMIC_ACQUIRE)) {
        CUkernel loaded = NULL;
        pthread_mutex_lock(&lock);
        if (!opaque) {
            result = load(&loaded);
            __atomic_store_n(&opaque, loaded, __ATOMIC_RELEASE);
        }
        pthread_mutex_unlock(&lock);
    }
    *kernel = __atomic_load_n(&opaque, __ATOMIC_ACQUIRE);
    return *kernel ? cudaSuccess : result ? result : cudaErrorInvalidDeviceFunction;
}

/* ---- attributes of a kernel ---- */

static int number(CUdevice_attribute attribute)
{
    int device = 0, value = 0;
    if (rt_device(&device) || rt_driver.cuDeviceGetAttribute(&value, attribute, device)) {
        return 0;
    }
    return value;
}

RT_CALL(cudaFuncGetAttributes, cudaFuncAttributes *out, const void *host)
{
    RT_TRY(rt_context());
    struct rt_function *function = rt_function(host);
    if (!function) {
        return rt_end(cudaErrorInvalidDeviceFunction);
    }
    int version = 10 * number(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR) +
                  number(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
    *out = (cudaFuncAttributes){.maxThreadsPerBlock = THREADS,
                                .numRegs = REGISTERS,
                                .ptxVersion = version,
                                .binaryVersion = version,
                                .maxDynamicSharedSizeBytes =
                                    function->dynamic_shared ? function->dynamic_shared : SHARED,
                                .preferredShmemCarveout = -1};
    return cudaSuccess;
}

RT_CALL(cudaFuncSetAttribute, const void *host, CUfunction_attribute attribute, int value)
{
    RT_TRY(rt_context());
    struct rt_function *function = rt_function(host);
    if (!function) {
        return rt_end(cudaErrorInvalidDeviceFunction);
    }
    if (attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
        if (value < 0 || value > number(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)) {
            return rt_end(cudaErrorInvalidValue);
        }
        function->dynamic_shared = value;
    }
    return cudaSuccess;
}

RT_CALL(cudaFuncSetCacheConfig, const void *host, CUfunc_cache config)
{
    (void)config;
    return rt_end(rt_function(host) ? cudaSuccess : cudaErrorInvalidDeviceFunction);
}

/* ---- occupancy ---- */

static int smaller(int a, int b) { return a < b ? a : b; }

RT_CALL(cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, int *blocks, const void *host,
        int block_size, size_t shared, unsigned int flags)
{
    (void)flags;
    RT_TRY(rt_context());
    if (!rt_function(host)) {
        return rt_end(cudaErrorInvalidDeviceFunction);
    }
    if (!blocks || block_size <= 0 || block_size > THREADS) {
        return rt_end(cudaErrorInvalidValue);
    }
    int threads = (block_size + 31) / 32 * 32; /* whole warps */
    *blocks = number(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR) / threads;
    *blocks = smaller(*blocks, number(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR) /
                                   (threads * REGISTERS));
    if (shared) {
        size_t room = (size_t)number(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR);
        *blocks = smaller(*blocks, (int)(room / shared));
    }
    int most = number(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR);
    *blocks = most ? smaller(*blocks, most) : *blocks;
    return cudaSuccess;
}

RT_CALL(cudaOccupancyMaxActiveBlocksPerMultiprocessor, int *blocks, const void *host,
        int block_size, size_t shared)
{
    return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, host, block_size, shared,
                                                                  0);
}
