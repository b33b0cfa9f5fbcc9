/* Executable graphs, whose memory the driver takes at their first launch (graph_memory.h). Launches themselves are in
 * wrappers.c. */
#include "shim/base/driver.h"
#include "shim/gate/gate.h"
#include "shim/mem/graph_memory.h"
#include "shim/mem/oom_retry.h"

/* The driver may need memory for it: room is made, outside the gate, and it tries once more. */
#define INSTANTIATE(name, parameters, arguments)                              \
    CUresult name parameters                                                  \
    {                                                                         \
        CUresult result;                                                      \
        unsigned attempt = 0;                                                 \
        do {                                                                  \
            struct mw_slot *slot = gate_enter();                              \
            result = DRIVER(name) arguments;                                  \
            gate_leave(slot);                                                 \
        } while (result == CUDA_ERROR_OUT_OF_MEMORY && oom_retry(attempt++)); \
        if (attempt) {                                                        \
            oom_retry_done();                                                 \
        }                                                                     \
        if (result == CUDA_SUCCESS && atomic_load(&graph_memory_is_used)) {   \
            graph_memory_instantiated(graph, *graph_exec);                    \
        }                                                                     \
        return result;                                                        \
    }

#define WITH_LOG                                                                          \
    (CUgraphExec * graph_exec, CUgraph graph, CUgraphNode * error_node, char *log_buffer, \
     size_t buffer_size)
#define LOG (graph_exec, graph, error_node, log_buffer, buffer_size)
#define WITH_PARAMS \
    (CUgraphExec * graph_exec, CUgraph graph, CUDA_GRAPH_INSTANTIATE_PARAMS * instantiate_params)
#define PARAMS (graph_exec, graph, instantiate_params)

INSTANTIATE(cuGraphInstantiate, WITH_LOG, LOG)
INSTANTIATE(cuGraphInstantiate_v2, WITH_LOG, LOG)
INSTANTIATE(cuGraphInstantiateWithFlags,
            (CUgraphExec * graph_exec, CUgraph graph, unsigned long long flags),
            (graph_exec, graph, flags))
INSTANTIATE(cuGraphInstantiateWithParams, WITH_PARAMS, PARAMS)
INSTANTIATE(cuGraphInstantiateWithParams_ptsz, WITH_PARAMS, PARAMS)

static CUresult upload(CUgraphExec exec, CUstream stream, CUresult (*real)(CUgraphExec, CUstream))
{
    CUresult result =
        atomic_load(&graph_memory_is_used) ? graph_memory_begin_launch(exec) : CUDA_SUCCESS;
    if (result != CUDA_SUCCESS) {
        return result;
    }
    unsigned attempt = 0;
    do {
        struct mw_slot *slot = gate_enter();
        result = real(exec, stream);
        gate_leave(slot);
    } while (result == CUDA_ERROR_OUT_OF_MEMORY && oom_retry(attempt++));
    if (attempt) {
        oom_retry_done();
    }
    if (result == CUDA_SUCCESS && atomic_load(&graph_memory_is_used)) {
        graph_memory_end_launch(exec);
    }
    return result;
}

CUresult cuGraphUpload(CUgraphExec graph_exec, CUstream stream)
{
    return upload(graph_exec, stream, DRIVER(cuGraphUpload));
}

CUresult cuGraphUpload_ptsz(CUgraphExec graph_exec, CUstream stream)
{
    return upload(graph_exec, stream, DRIVER(cuGraphUpload_ptsz));
}

CUresult cuGraphDestroy(CUgraph graph)
{
    CUresult result = DRIVER(cuGraphDestroy)(graph);
    if (result == CUDA_SUCCESS && atomic_load(&graph_memory_is_used)) {
        graph_memory_forget_graph(graph);
    }
    return result;
}

CUresult cuGraphExecDestroy(CUgraphExec graph_exec)
{
    CUresult result = DRIVER(cuGraphExecDestroy)(graph_exec);
    if (result == CUDA_SUCCESS && atomic_load(&graph_memory_is_used)) {
        graph_memory_forget_exec(graph_exec);
    }
    return result;
}
