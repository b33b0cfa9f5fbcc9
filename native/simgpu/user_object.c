/* Objects of the program that live as long as somebody has references to them: it itself, or its graphs. */
#include <stdlib.h>

#include "simgpu/graph.h"
#include "simgpu/resize.h"

struct CUuserObject_st {
    unsigned refs;
    void *data;
    CUhostFn destroy;
};

CUresult cuUserObjectCreate(CUuserObject *out, void *data, CUhostFn destroy, unsigned int refs,
                            unsigned int flags)
{
    SG_ENTER();
    if (!out || !destroy || !refs || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUuserObject object = calloc(1, sizeof *object);
    if (!object) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *object = (struct CUuserObject_st){refs, data, destroy};
    sg_handle_add(object, SG_USER_OBJECT);
    *out = object;
    return CUDA_SUCCESS;
}

CUresult cuUserObjectRetain(CUuserObject object, unsigned int count)
{
    SG_ENTER();
    if (!sg_handle_is(object, SG_USER_OBJECT)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    __atomic_add_fetch(&object->refs, count, __ATOMIC_ACQ_REL);
    return CUDA_SUCCESS;
}

CUresult cuUserObjectRelease(CUuserObject object, unsigned int count)
{
    SG_ENTER();
    if (!sg_handle_is(object, SG_USER_OBJECT) || count > object->refs) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (__atomic_sub_fetch(&object->refs, count, __ATOMIC_ACQ_REL) > 0) {
        return CUDA_SUCCESS;
    }
    sg_handle_remove(object, SG_USER_OBJECT);
    object->destroy(object->data);
    free(object);
    return CUDA_SUCCESS;
}

/* ---- held by graphs ---- */

static struct sg_held *held_by(CUgraph graph, CUuserObject object)
{
    for (size_t i = 0; i < graph->held_count; i++) {
        if (graph->held[i].object == object) {
            return &graph->held[i];
        }
    }
    return NULL;
}

static void hold(CUgraph graph, CUuserObject object, unsigned count)
{
    struct sg_held *held = held_by(graph, object);
    if (held) {
        held->count += count;
        return;
    }
    graph->held = sg_resize(graph->held, (graph->held_count + 1) * sizeof *graph->held);
    graph->held[graph->held_count++] = (struct sg_held){object, count};
}

void sg_graph_hold_as(CUgraph copy, CUgraph graph)
{
    for (size_t i = 0; i < graph->held_count; i++) {
        __atomic_add_fetch(&graph->held[i].object->refs, 1, __ATOMIC_ACQ_REL);
        hold(copy, graph->held[i].object, 1);
    }
}

void sg_graph_let_go(CUgraph graph)
{
    for (size_t i = 0; i < graph->held_count; i++) {
        cuUserObjectRelease(graph->held[i].object, graph->held[i].count);
    }
    free(graph->held);
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
    hold(graph, object, count);
    return CUDA_SUCCESS;
}

CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned int count)
{
    SG_TRY(find(graph, object, count));
    struct sg_held *held = held_by(graph, object);
    if (!held || held->count < count) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    held->count -= count;
    if (!held->count) {
        *held = graph->held[--graph->held_count];
    }
    return cuUserObjectRelease(object, count);
}
