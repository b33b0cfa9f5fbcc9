/* The driver's functions, found by name and version. */
#ifndef MOIETY_CUDART_DRIVER_H
#define MOIETY_CUDART_DRIVER_H

#include "cudart/runtime.h"

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

#endif
