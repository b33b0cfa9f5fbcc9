/* The entry points about objects of the program that graphs hold. */
#include "simgpu/base/entry.h"
#include "simgpu/base/handles.h"
#include "simgpu/graph/graph.h"
#include "simgpu/graph/user_object.h"

CUresult cuUserObjectCreate(CUuserObject *out, void *data, CUhostFn destroy, unsigned int refs,
                            unsigned int flags)
{
    SG_ENTER();
    if (!out || !destroy || !refs || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *out = sg_user_object_new(data, destroy, refs);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuUserObjectRetain(CUuserObject object, unsigned int count)
{
    SG_ENTER();
    if (!sg_handle_is(object, SG_USER_OBJECT)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    sg_user_object_ref(object, count);
    return CUDA_SUCCESS;
}

CUresult cuUserObjectRelease(CUuserObject object, unsigned int count)
{
    SG_ENTER();
    return sg_user_object_unref(object, count) == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult find(CUgraph graph, CUuserObject object, unsigned count)
{
    SG_ENTER();
    return count && sg_handle_is(graph, SG_GRAPH) && sg_handle_is(object, SG_USER_OBJECT)
               ? CUDA_SUCCESS
               : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned int count,
                                 unsigned int flags)
{
    SG_TRY(find(graph, object, count));
    if (flags & ~(unsigned)CU_GRAPH_USER_OBJECT_MOVE) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!(flags & CU_GRAPH_USER_OBJECT_MOVE)) { /* else they were the caller's own */
        SG_TRY(cuUserObjectRetain(object, count));
    }
    sg_held_objects_add(&graph->held, object, count);
    return CUDA_SUCCESS;
}

CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count)
{
    SG_TRY(find(graph, object, count));
    if (sg_held_objects_remove(&graph->held, object, count) != 0) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return cuUserObjectRelease(object, count);
}
