/* The entry points about graphs as a whole. */
#include "simgpu/base/entry.h"
#include "simgpu/base/handles.h"
#include "simgpu/graph/graph.h"
#include "simgpu/graph/graph_conditional.h"
#include "simgpu/graph/graph_memory.h"

static CUresult find(CUgraph graph)
{
    SG_ENTER();
    return sg_handle_is(graph, SG_GRAPH) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphCreate(CUgraph *out, unsigned int flags)
{
    SG_ENTER();
    if (!out || flags) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *out = sg_graph_new();
    return CUDA_SUCCESS;
}

CUresult cuGraphDestroy(CUgraph graph)
{
    SG_TRY(find(graph));
    if (graph->owned) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    sg_graph_free(graph);
    return CUDA_SUCCESS;
}

CUresult cuGraphClone(CUgraph *out, CUgraph graph)
{
    SG_TRY(find(graph));
    if (sg_graph_has_memory(graph) || sg_graph_has_conditionals(graph)) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    *out = sg_graph_copy(graph);
    return CUDA_SUCCESS;
}

CUresult cuGraphNodeFindInClone(CUgraphNode *out, CUgraphNode node, CUgraph copy)
{
    SG_TRY(find(copy));
    *out = sg_graph_copy_of(copy, node);
    return *out ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* Fills the caller's array and counts all nodes, also those that do not fit. */
struct listing {
    CUgraphNode *nodes;
    size_t room, found;
};

static void list(struct listing *listing, CUgraphNode node)
{
    if (listing->found < listing->room && listing->nodes) {
        listing->nodes[listing->found] = node;
    }
    listing->found++;
}

static CUresult listed(struct listing *listing, size_t *count)
{
    for (size_t i = listing->found; listing->nodes && i < listing->room; i++) {
        listing->nodes[i] = NULL;
    }
    *count = listing->nodes && listing->room < listing->found ? listing->room : listing->found;
    return CUDA_SUCCESS;
}

CUresult cuGraphGetNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
    SG_TRY(find(graph));
    struct listing listing = {nodes, *count, 0};
    for (CUgraphNode node = graph->first; node; node = node->next) {
        list(&listing, node);
    }
    return listed(&listing, count);
}

CUresult cuGraphGetRootNodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
    SG_TRY(find(graph));
    struct listing listing = {nodes, *count, 0};
    for (CUgraphNode node = graph->first; node; node = node->next) {
        if (node->depend_count == 0) {
            list(&listing, node);
        }
    }
    return listed(&listing, count);
}

CUresult cuGraphGetId(CUgraph graph, unsigned int *id)
{
    SG_TRY(find(graph));
    if (!id) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *id = graph->id;
    return CUDA_SUCCESS;
}
