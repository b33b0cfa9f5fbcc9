/* Graphs made by hand: what the parts of simgpu_nodes.c share. */
#ifndef SIMGPU_NODES_H
#define SIMGPU_NODES_H

#include <stdint.h>

#include "simgpu_check.h"

#define WORDS 64u

static CUcontext context;
static CUstream stream;
static CUdeviceptr at;
static int calls;

static inline void count(void *data) { ++*(int *)data; }

static inline CUDA_KERNEL_NODE_PARAMS launch_of(const char *name, void **params)
{
    return (CUDA_KERNEL_NODE_PARAMS){.func = kernel(name),
                                     .gridDimX = 1,
                                     .gridDimY = 1,
                                     .gridDimZ = 1,
                                     .blockDimX = 1,
                                     .blockDimY = 1,
                                     .blockDimZ = 1,
                                     .kernelParams = params};
}

static inline CUgraphNode add_kernel(CUgraph graph, CUgraphNode *after, const char *name,
                                     void **params)
{
    CUgraphNode node;
    CUDA_KERNEL_NODE_PARAMS launch = launch_of(name, params);
    OK(cuGraphAddKernelNode_v2(&node, graph, after, after ? 1 : 0, &launch));
    return node;
}

static inline void clear(void)
{
    OK(cuMemsetD32_v2(at, 0, WORDS));
    OK(cuCtxSynchronize()); /* the stream of ours does not wait for it */
}

static inline uint32_t word(size_t i)
{
    uint32_t value;
    OK(cuMemcpyDtoH_v2(&value, at + 4 * i, 4));
    return value;
}

static inline CUgraphExec ready(CUgraph graph)
{
    CUgraphExec exec;
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    return exec;
}

static inline void play(CUgraphExec exec)
{
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
}

#endif
