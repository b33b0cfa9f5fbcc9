/* The entry points about edges: the dependencies between nodes. */
#include <string.h>

#include "simgpu/base/entry.h"
#include "simgpu/base/handles.h"
#include "simgpu/base/resize.h"
#include "simgpu/graph/graph.h"

static CUresult find(CUgraphNode node)
{
    SG_ENTER();
    return sg_handle_is(node, SG_GRAPH_NODE) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static int is_plain(const CUgraphEdgeData *data)
{
    return !data->from_port && !data->to_port && !data->type;
}

/* The data of the edge to the node's last dependency. */
static void describe_last(CUgraphNode node, const CUgraphEdgeData *data)
{
    if (!node->edges && (!data || is_plain(data))) {
        return;
    }
    size_t last = node->depend_count - 1, size = sizeof *node->edges;
    CUgraphEdgeData *edges = sg_resize(node->edges, node->depend_count * size);
    memset(node->edges ? &edges[last] : edges, 0, (node->edges ? 1 : node->depend_count) * size);
    if (data) {
        edges[last] = *data;
    }
    node->edges = edges;
}

static CUgraphEdgeData edge_of(CUgraphNode node, size_t i)
{
    return node->edges ? node->edges[i] : (CUgraphEdgeData){0};
}

static CUresult add(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                    const CUgraphEdgeData *data, size_t count)
{
    SG_ENTER();
    if (!sg_handle_is(graph, SG_GRAPH) || (count && (!from || !to))) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (size_t i = 0; i < count; i++) {
        SG_TRY(find(from[i]));
        SG_TRY(find(to[i]));
        if (from[i]->graph != graph || to[i]->graph != graph || from[i] == to[i]) {
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    for (size_t i = 0; i < count; i++) {
        CUgraphNode node = to[i];
        node->depends = sg_resize(node->depends, (node->depend_count + 1) * sizeof *node->depends);
        node->depends[node->depend_count++] = from[i];
        describe_last(node, data ? &data[i] : NULL);
    }
    return CUDA_SUCCESS;
}

CUresult cuGraphAddDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                size_t count)
{
    return add(graph, from, to, NULL, count);
}

CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                   const CUgraphEdgeData *data, size_t count)
{
    return add(graph, from, to, data, count);
}

CUresult cuGraphRemoveDependencies(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                   size_t count)
{
    for (size_t i = 0; i < count; i++) {
        SG_TRY(find(from[i]));
        SG_TRY(find(to[i]));
        if (to[i]->graph != graph || !sg_graph_unlink(from[i], to[i])) {
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    return CUDA_SUCCESS;
}

CUresult cuGraphRemoveDependencies_v2(CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                      const CUgraphEdgeData *data, size_t count)
{
    (void)data;
    return cuGraphRemoveDependencies(graph, from, to, count);
}

/* ---- questions ---- */

/* Fills the caller's arrays and counts all edges. Calls without edge data fail if an edge has any. */
struct listing {
    CUgraphNode *from, *to;
    CUgraphEdgeData *data;
    size_t room, found;
    int lossy;
};

static void list(struct listing *listing, CUgraphNode to, size_t i)
{
    CUgraphEdgeData data = edge_of(to, i);
    if (listing->found < listing->room) {
        if (listing->from) {
            listing->from[listing->found] = to->depends[i];
        }
        if (listing->to) {
            listing->to[listing->found] = to;
        }
        if (listing->data) {
            listing->data[listing->found] = data;
        }
    }
    listing->lossy |= !listing->data && (listing->from || listing->to) && !is_plain(&data);
    listing->found++;
}

static CUresult listed(struct listing *listing, size_t *count)
{
    int asked = listing->from || listing->to;
    for (size_t i = listing->found; asked && i < listing->room; i++) {
        if (listing->from) {
            listing->from[i] = NULL;
        }
        if (listing->to) {
            listing->to[i] = NULL;
        }
    }
    *count = asked && listing->room < listing->found ? listing->room : listing->found;
    return listing->lossy ? CUDA_ERROR_LOSSY_QUERY : CUDA_SUCCESS;
}

CUresult cuGraphGetEdges_v2(CUgraph graph, CUgraphNode *from, CUgraphNode *to,
                            CUgraphEdgeData *data, size_t *count)
{
    SG_ENTER();
    if (!sg_handle_is(graph, SG_GRAPH) || !count) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct listing listing = {from, to, data, *count, 0, 0};
    for (CUgraphNode node = graph->first; node; node = node->next) {
        for (size_t i = 0; i < node->depend_count; i++) {
            list(&listing, node, i);
        }
    }
    return listed(&listing, count);
}

CUresult cuGraphGetEdges(CUgraph graph, CUgraphNode *from, CUgraphNode *to, size_t *count)
{
    return cuGraphGetEdges_v2(graph, from, to, NULL, count);
}

CUresult cuGraphNodeGetDependencies_v2(CUgraphNode node, CUgraphNode *nodes, CUgraphEdgeData *data,
                                       size_t *count)
{
    SG_TRY(find(node));
    if (!count) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct listing listing = {nodes, NULL, data, *count, 0, 0};
    for (size_t i = 0; i < node->depend_count; i++) {
        list(&listing, node, i);
    }
    return listed(&listing, count);
}

CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *nodes, size_t *count)
{
    return cuGraphNodeGetDependencies_v2(node, nodes, NULL, count);
}

CUresult cuGraphNodeGetDependentNodes_v2(CUgraphNode node, CUgraphNode *nodes,
                                         CUgraphEdgeData *data, size_t *count)
{
    SG_TRY(find(node));
    if (!count) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct listing listing = {NULL, nodes, data, *count, 0, 0};
    for (CUgraphNode other = node->graph->first; other; other = other->next) {
        for (size_t i = 0; i < other->depend_count; i++) {
            if (other->depends[i] == node) {
                list(&listing, other, i);
            }
        }
    }
    return listed(&listing, count);
}

CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *nodes, size_t *count)
{
    return cuGraphNodeGetDependentNodes_v2(node, nodes, NULL, count);
}
