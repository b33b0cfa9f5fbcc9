/* What the files of the runtime share: the driver, the calling thread, and how a call begins and ends.
 *
 * Files in streams/ are compiled twice. The second time, with RT_PER_THREAD, their functions get the names of
 * the per-thread default stream's flavour and call the driver's functions of that flavour.
 */
#ifndef MOIETY_CUDART_RUNTIME_H
#define MOIETY_CUDART_RUNTIME_H

#include <stdint.h>

#include "cuda/cuda_calls.h"
#include "cudart/cudart_abi.h"

#define RT_EXPORT __attribute__((visibility("default")))
#define RT_DEVICES_MAX 64

/* RT_CALL(name, parameters) { body }: an exported function of the runtime */
#define RT_CALL(name, ...)                   \
    RT_EXPORT cudaError_t name(__VA_ARGS__); \
    cudaError_t name(__VA_ARGS__)

/* ---- the driver ---- */
struct rt_driver {
#define DRIVER(name, symbol, version) __typeof__ (&symbol)(name);
#define DRIVER_S(name, symbol, version)
#include "cudart/driver.def"
};
struct rt_stream_driver {
#define DRIVER(name, symbol, version)
#define DRIVER_S(name, symbol, version) __typeof__ (&symbol)(name);
#include "cudart/driver.def"
};
extern struct rt_driver rt_driver;
extern struct rt_stream_driver rt_legacy_driver, rt_per_thread_driver;

#ifdef RT_PER_THREAD
#    define RT_DS(name) name##_ptds
#    define RT_SZ(name) name##_ptsz
#    define rt_stream_driver rt_per_thread_driver
#else
#    define RT_DS(name) name
#    define RT_SZ(name) name
#    define rt_stream_driver rt_legacy_driver
#endif

/* Finds and starts the driver, once for the process. */
cudaError_t rt_start(void);
/* Any driver function by name, as cudaGetDriverEntryPoint has it. */
CUresult rt_lookup(const char *symbol, void **function, int version, cuuint64_t flags,
                   CUdriverProcAddressQueryResult *status);

/* ---- the calling thread ---- */
/* Remembers an error for cudaGetLastError, and returns it. */
cudaError_t rt_end(cudaError_t result);
/* The device that the thread's calls go to. */
cudaError_t rt_device(int *device);
/* Makes sure that a context is current: the thread's own choice, else its device's primary one. */
cudaError_t rt_context(void);
/* The primary context of a device, retained once for as long as the process lives. */
cudaError_t rt_primary(int device, CUcontext *context);

/* ---- code ---- */
struct rt_function {
    const void *host;   /* the address that the program launches */
    const char *name;   /* as the compiler mangled it */
    CUkernel kernel;    /* of the driver; NULL: code for a GPU, which only takes time here */
    uint32_t spins : 1; /* its first argument says how many cycles it takes */
    int dynamic_shared; /* as cudaFuncSetAttribute left it */
};
struct rt_function *rt_function(const void *host);
struct rt_function *rt_function_add(const void *host, const char *name, CUkernel kernel);
void rt_function_remove(const void *host);
/* The kernel that stands in for all of them: opaque(uint64_t ns) takes GPU time and computes nothing. */
cudaError_t rt_opaque(CUkernel *kernel);
/* The memory behind a variable of the program's device code, on the current device. */
cudaError_t rt_symbol(const void *host, CUdeviceptr *address, size_t *bytes);
void rt_symbols_reset(int device);

/* ---- arrays ---- */
/* Bytes of an element, which is what the runtime counts in where an array takes part. */
cudaError_t rt_element(CUarray array, size_t *bytes);

#define RT_TRY(call)                   \
    do {                               \
        cudaError_t rt_tried = (call); \
        if (rt_tried) {                \
            return rt_end(rt_tried);   \
        }                              \
    } while (0)

/* The whole body of a call that needs a context and is one call of the driver. */
#define RT_PASS(call)     \
    RT_TRY(rt_context()); \
    return rt_end((cudaError_t)(call))

static inline CUdeviceptr rt_address(const void *pointer)
{
    return (CUdeviceptr)(uintptr_t)pointer;
}

#endif
