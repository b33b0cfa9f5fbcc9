/* Finds the driver as NVIDIA's runtime does: opens it, and asks it for each function by name and version. */
#include "cudart/driver.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>

#include "cudart/runtime.h"

#undef rt_stream_driver

struct rt_driver rt_driver;
struct rt_stream_driver rt_legacy_driver, rt_per_thread_driver;

static __typeof__(&cuGetProcAddress_v2) get_proc_address;
static cudaError_t started = cudaErrorInsufficientDriver;

/* In the place of what the driver does not have. */
static CUresult not_there(void) { return CUDA_ERROR_NOT_SUPPORTED; }

static void *find(const char *name, int version, cuuint64_t flags)
{
    CUdriverProcAddressQueryResult status;
    void *function = NULL;
    if (get_proc_address(name, &function, version, flags, &status) || !function) {
        return (void *)not_there;
    }
    return function;
}

static void find_all(void)
{
#define DRIVER(name, symbol, version) \
    rt_driver.name = (__typeof__(&symbol))find(#name, version, CU_GET_PROC_ADDRESS_DEFAULT);
#define DRIVER_S(name, symbol, version)                                               \
    rt_legacy_driver.name =                                                           \
        (__typeof__(&symbol))find(#name, version, CU_GET_PROC_ADDRESS_LEGACY_STREAM); \
    rt_per_thread_driver.name =                                                       \
        (__typeof__(&symbol))find(#name, version, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM);
#include "cudart/driver.def"
}

static void start(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    get_proc_address =
        library ? (__typeof__(get_proc_address))dlsym(library, "cuGetProcAddress_v2") : NULL;
    if (!get_proc_address) {
        return;
    }
    find_all();
    int version = 0;
    if (rt_driver.cuDriverGetVersion(&version) || version / 1000 < CUDART_VERSION / 1000) {
        return;
    }
    started = (cudaError_t)rt_driver.cuInit(0);
}

cudaError_t rt_start(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, start);
    return started;
}

CUresult rt_lookup(const char *symbol, void **function, int version, cuuint64_t flags,
                   CUdriverProcAddressQueryResult *status)
{
    return get_proc_address(symbol, function, version, flags, status);
}
