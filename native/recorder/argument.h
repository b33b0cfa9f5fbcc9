/* One argument of a call, and how much of what it points to belongs into the trace.
 *
 * The compiler knows each parameter's type, so what a kind of pointer means is said once, here, and not
 * for each of the driver's functions.
 */
#ifndef MOIETY_RECORDER_ARGUMENT_H
#define MOIETY_RECORDER_ARGUMENT_H

#include <stddef.h>
#include <stdint.h>

#include "cuda/cuda_calls.h"

enum kind {
    PLAIN,  /* a number, a handle, or a pointer whose target is not recorded */
    OUT,    /* where the driver writes one number or handle of `target` bytes */
    IN,     /* an array of `target` bytes each, as many as the call's count says; or one */
    TEXT,   /* a name */
    CONFIG, /* a CUlaunchConfig, with the attributes that it points to */
};

struct argument {
    const char *name; /* of the parameter */
    const void *at;   /* the parameter itself */
    uint32_t bytes;
    uint16_t kind, target;
};

#define KIND_OF(kind, type) ((uint32_t)(kind) << 16 | (uint32_t)sizeof(type))
#define OUT_(type) type * : KIND_OF(OUT, type)

/* clang-format off: this is a table */
#define KIND(parameter)                                                              \
    _Generic((parameter),                                                            \
        OUT_(int),                                                                   \
        OUT_(unsigned),                                                              \
        OUT_(float),                                                                 \
        OUT_(size_t),                                                                \
        OUT_(unsigned long long),                                                    \
        OUT_(void *),                                                                \
        const void **: KIND_OF(OUT, void *),                                         \
        OUT_(CUcontext),                                                             \
        OUT_(CUmodule),                                                              \
        OUT_(CUfunction),                                                            \
        OUT_(CUkernel),                                                              \
        OUT_(CUlibrary),                                                             \
        OUT_(CUstream),                                                              \
        OUT_(CUevent),                                                               \
        OUT_(CUgraph),                                                               \
        OUT_(CUgraphExec),                                                           \
        OUT_(CUmemoryPool),                                                          \
        OUT_(CUarray),                                                               \
        OUT_(CUmipmappedArray),                                                      \
        OUT_(CUuserObject),                                                          \
        OUT_(CUlinkState),                                                           \
        OUT_(CUgraphNode),                                                           \
        const CUgraphNode *: KIND_OF(IN, CUgraphNode),                               \
        OUT_(CUipcMemHandle),                                                        \
        OUT_(CUipcEventHandle),                                                      \
        const char *: KIND_OF(TEXT, char),                                           \
        const CUlaunchConfig *: KIND_OF(CONFIG, CUlaunchConfig),                     \
        const CUuuid *: KIND_OF(IN, CUuuid),                                         \
        const CUmemAllocationProp *: KIND_OF(IN, CUmemAllocationProp),               \
        const CUmemLocation *: KIND_OF(IN, CUmemLocation),                           \
        const CUmemAccessDesc *: KIND_OF(IN, CUmemAccessDesc),                       \
        const CUmemPoolProps *: KIND_OF(IN, CUmemPoolProps),                         \
        const CUDA_ARRAY_DESCRIPTOR *: KIND_OF(IN, CUDA_ARRAY_DESCRIPTOR),           \
        const CUDA_ARRAY3D_DESCRIPTOR *: KIND_OF(IN, CUDA_ARRAY3D_DESCRIPTOR),       \
        const CUDA_MEMCPY2D *: KIND_OF(IN, CUDA_MEMCPY2D),                           \
        const CUDA_MEMCPY3D *: KIND_OF(IN, CUDA_MEMCPY3D),                           \
        const CUDA_MEMCPY3D_PEER *: KIND_OF(IN, CUDA_MEMCPY3D_PEER),                 \
        const CUDA_MEMSET_NODE_PARAMS *: KIND_OF(IN, CUDA_MEMSET_NODE_PARAMS),       \
        const CUDA_HOST_NODE_PARAMS *: KIND_OF(IN, CUDA_HOST_NODE_PARAMS),           \
        const CUDA_KERNEL_NODE_PARAMS *: KIND_OF(IN, CUDA_KERNEL_NODE_PARAMS),       \
        const CUDA_KERNEL_NODE_PARAMS_v1 *: KIND_OF(IN, CUDA_KERNEL_NODE_PARAMS_v1), \
        CUDA_MEM_ALLOC_NODE_PARAMS *: KIND_OF(IN, CUDA_MEM_ALLOC_NODE_PARAMS),       \
        CUgraphNodeParams *: KIND_OF(IN, CUgraphNodeParams),                         \
        CUDA_GRAPH_INSTANTIATE_PARAMS *: KIND_OF(IN, CUDA_GRAPH_INSTANTIATE_PARAMS), \
        CUstreamBatchMemOpParams *: KIND_OF(IN, CUstreamBatchMemOpParams),           \
        default: KIND_OF(PLAIN, char))
/* clang-format on */

#define ARGUMENT(parameter)                                                                    \
    {#parameter, &(parameter), (uint32_t)sizeof(parameter), (uint16_t)(KIND(parameter) >> 16), \
     (uint16_t)(KIND(parameter) & 0xffff)},

/* ARGUMENTS(a, b, c): each of up to 16. */
#define EACH_0(f)
#define EACH_1(f, a) f(a)
#define EACH_2(f, a, ...) f(a) EACH_1(f, __VA_ARGS__)
#define EACH_3(f, a, ...) f(a) EACH_2(f, __VA_ARGS__)
#define EACH_4(f, a, ...) f(a) EACH_3(f, __VA_ARGS__)
#define EACH_5(f, a, ...) f(a) EACH_4(f, __VA_ARGS__)
#define EACH_6(f, a, ...) f(a) EACH_5(f, __VA_ARGS__)
#define EACH_7(f, a, ...) f(a) EACH_6(f, __VA_ARGS__)
#define EACH_8(f, a, ...) f(a) EACH_7(f, __VA_ARGS__)
#define EACH_9(f, a, ...) f(a) EACH_8(f, __VA_ARGS__)
#define EACH_10(f, a, ...) f(a) EACH_9(f, __VA_ARGS__)
#define EACH_11(f, a, ...) f(a) EACH_10(f, __VA_ARGS__)
#define EACH_12(f, a, ...) f(a) EACH_11(f, __VA_ARGS__)
#define EACH_13(f, a, ...) f(a) EACH_12(f, __VA_ARGS__)
#define EACH_14(f, a, ...) f(a) EACH_13(f, __VA_ARGS__)
#define EACH_15(f, a, ...) f(a) EACH_14(f, __VA_ARGS__)
#define EACH_16(f, a, ...) f(a) EACH_15(f, __VA_ARGS__)
#define CHOOSE(a1, a2, a3, a4, a5, a6, a7, a8, a9, a10, a11, a12, a13, a14, a15, a16, chosen, ...) \
    chosen
#define COUNT_EACH(...)                                                                     \
    CHOOSE(__VA_ARGS__ __VA_OPT__(, ) EACH_16, EACH_15, EACH_14, EACH_13, EACH_12, EACH_11, \
           EACH_10, EACH_9, EACH_8, EACH_7, EACH_6, EACH_5, EACH_4, EACH_3, EACH_2, EACH_1, \
           EACH_0)
#define ARGUMENTS(...) COUNT_EACH(__VA_ARGS__)(ARGUMENT __VA_OPT__(, ) __VA_ARGS__)

#endif
