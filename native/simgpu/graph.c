#include "simgpu/graph.h"

#include <stdlib.h>
#include <string.h>

#include "simgpu/graph_conditional.h"
#include "simgpu/graph_memory.h"
#include "simgpu/resize.h"

static unsigned last_id;

CUgraph sg_graph_new(void)
{
    CUgraph graph = calloc(1, sizeof *graph);
    if (!graph) {
        abort();
    }
    graph->last = &graph->first;
    graph->id = __atomic_add_fetch(&last_id, 1, __ATOMIC_RELAXED);
    sg_handle_add(graph, SG_GRAPH);
    return graph;
}

CUgraphNode sg_graph_add(CUgraph graph, CUgraphNodeType type, struct sg_op *op,
                         const CUgraphNode *depends, size_t count)
{
    CUgraphNode node = calloc(1, sizeof *node);
    if (!node) {
        abort();
    }
    node->graph = graph;
    node->type = type;
    node->op = op;
    node->id = graph->next_id++;
    node->depend_count = count;
    node->depends = count ? malloc(count * sizeof *depends) : NULL;
    if (count) {
        memcpy(node->depends, depends, count * sizeof *depends);
    }
    *graph->last = node;
    graph->last = &node->next;
    graph->count++;
    sg_handle_add(node, SG_GRAPH_NODE);
    return node;
}

static void free_node(CUgraphNode node)
{
    sg_handle_remove(node, SG_GRAPH_NODE);
    if (node->op) {
        sg_op_free(node->op);
    }
    if (node->child) {
        sg_graph_free(node->child);
    }
    free(node->depends);
    free(node->edges);
    free(node->given);
    free(node->params);
    free(node);
}

void sg_graph_free(CUgraph graph)
{
    sg_handle_remove(graph, SG_GRAPH);
    sg_conditionals_forget(graph);
    sg_graph_let_go(graph);
    for (CUgraphNode node = graph->first, next; node; node = next) {
        next = node->next;
        free_node(node);
    }
    free(graph);
}

static int reaches(CUgraphNode from, CUgraphNode node, unsigned visit)
{
    if (from == node) {
        return 1;
    }
    if (node->visit == visit) {
        return 0;
    }
    node->visit = visit;
    for (size_t i = 0; i < node->depend_count; i++) {
        if (reaches(from, node->depends[i], visit)) {
            return 1;
        }
    }
    return 0;
}

int sg_graph_leads_to(CUgraphNode from, CUgraphNode node)
{
    return reaches(from, node, ++node->graph->visits);
}

int sg_graph_unlink(CUgraphNode from, CUgraphNode to)
{
    for (size_t i = 0; i < to->depend_count; i++) {
        if (to->depends[i] == from) {
            size_t behind = --to->depend_count - i;
            memmove(&to->depends[i], &to->depends[i + 1], behind * sizeof *to->depends);
            if (to->edges) {
                memmove(&to->edges[i], &to->edges[i + 1], behind * sizeof *to->edges);
            }
            return 1;
        }
    }
    return 0;
}

void sg_graph_remove(CUgraphNode node)
{
    CUgraph graph = node->graph;
    for (CUgraphNode other = graph->first; other; other = other->next) {
        sg_graph_unlink(node, other);
    }
    CUgraphNode *at = &graph->first;
    while (*at && *at != node) {
        at = &(*at)->next;
    }
    *at = node->next;
    if (graph->last == &node->next) {
        graph->last = at;
    }
    graph->count--;
    free_node(node);
}

CUgraphNode sg_graph_copy_of(CUgraph copy, CUgraphNode node)
{
    for (CUgraphNode one = copy->first; one; one = one->next) {
        if (one->origin == node) {
            return one;
        }
    }
    return NULL;
}

static void *copied(const void *from, size_t bytes)
{
    void *copy = from && bytes ? sg_resize(NULL, bytes) : NULL;
    return copy ? memcpy(copy, from, bytes) : NULL;
}

CUgraph sg_graph_copy(CUgraph graph)
{
    CUgraph copy = sg_graph_new();
    sg_graph_hold_as(copy, graph);
    for (CUgraphNode node = graph->first; node; node = node->next) {
        CUgraphNode made =
            sg_graph_add(copy, node->type, node->op ? sg_op_copy(node->op) : NULL, NULL, 0);
        made->origin = node;
        made->disabled = node->disabled;
        if (node->child) {
            made->child = sg_graph_copy(node->child);
            made->child->owned = 1;
        }
        made->given = copied(node->given, sizeof *node->given);
    }
    for (CUgraphNode node = graph->first; node; node = node->next) {
        CUgraphNode made = sg_graph_copy_of(copy, node);
        made->depend_count = node->depend_count;
        made->depends = sg_resize(NULL, (node->depend_count + 1) * sizeof *made->depends);
        made->edges = copied(node->edges, node->depend_count * sizeof *node->edges);
        for (size_t i = 0; i < node->depend_count; i++) {
            made->depends[i] = sg_graph_copy_of(copy, node->depends[i]);
        }
    }
    return copy;
}

/* ---- entry points ---- */

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

/* Fills an array of the size that the caller said, and says how many there are. */
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
