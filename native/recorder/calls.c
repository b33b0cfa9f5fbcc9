/* Every function of the driver: calls the driver's, and writes down what came of it. */
#include "recorder/calls.h"

#include "recorder/driver.h"
#include "recorder/trace.h"

void *const calls_ours[ENTRY_COUNT] = {
#define CUDA_CALL(name, parameters, arguments) (void *)name,
#define CUDA_CALL_DS(name, parameters, arguments) (void *)name, (void *)name##_ptds,
#define CUDA_CALL_SZ(name, parameters, arguments) (void *)name, (void *)name##_ptsz,
#include "cuda/cuda_calls.def"
    /* The parameters of plain_calls.def are unknown, so the driver's own functions are returned. */
};

/* A call that the driver makes of another one of its functions is not the program's. */
static __thread unsigned depth;

/* Weak: those of lookup.c stand in for them. */
#define RECORD(name, parameters, arguments)                               \
    __attribute__((weak)) CUresult name parameters                        \
    {                                                                     \
        if (!driver_load()) {                                             \
            return CUDA_ERROR_NOT_INITIALIZED;                            \
        }                                                                 \
        depth++;                                                          \
        CUresult result = DRIVER(name) arguments;                         \
        if (--depth == 0) {                                               \
            const struct argument all[] = {ARGUMENTS arguments{0}};       \
            trace_call(#name, result, all, sizeof all / sizeof *all - 1); \
        }                                                                 \
        return result;                                                    \
    }
#define CUDA_CALL(name, parameters, arguments) RECORD(name, parameters, arguments)
#define CUDA_CALL_DS(name, parameters, arguments) \
    RECORD(name, parameters, arguments)           \
    RECORD(name##_ptds, parameters, arguments)
#define CUDA_CALL_SZ(name, parameters, arguments) \
    RECORD(name, parameters, arguments)           \
    RECORD(name##_ptsz, parameters, arguments)
#include "cuda/cuda_calls.def"
