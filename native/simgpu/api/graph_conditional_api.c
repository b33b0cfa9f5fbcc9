/* The entry point that makes the handles of conditional nodes. */
#include "simgpu/base/entry.h"
#include "simgpu/base/handles.h"
#include "simgpu/exec/conditional_value.h"

CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle *out, CUgraph graph,
                                        CUcontext context, unsigned int initial, unsigned int flags)
{
    SG_ENTER();
    if (!out || !sg_handle_is(graph, SG_GRAPH) || flags > CU_GRAPH_COND_ASSIGN_DEFAULT ||
        (context && !sg_handle_is(context, SG_CONTEXT_TYPE))) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *out = sg_conditional_value_new(graph, initial, (int)flags);
    return CUDA_SUCCESS;
}
