#include "simgpu/graph/graph.h"

#include <stdlib.h>
#include <string.h>

#include "simgpu/base/entry.h"
#include "simgpu/base/handles.h"
#include "simgpu/base/resize.h"
#include "simgpu/exec/conditional_value.h"

static unsigned last_id;

const struct sg_op_kind sg_kind_event_record = {
    .name = "event record node", .is_capturable = 1, .node_type = CU_GRAPH_NODE_TYPE_EVENT_RECORD};
const struct sg_op_kind sg_kind_event_wait = {
    .name = "event wait node", .is_capturable = 1, .node_type = CU_GRAPH_NODE_TYPE_WAIT_EVENT};

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
    sg_conditionals_release(graph);
    sg_held_objects_release(&graph->held);
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

CUgraph sg_graph_copy(CUgraph graph)
{
    CUgraph copy = sg_graph_new();
    sg_held_objects_copy(&copy->held, &graph->held);
    for (CUgraphNode node = graph->first; node; node = node->next) {
        CUgraphNode made =
            sg_graph_add(copy, node->type, node->op ? sg_op_copy(node->op) : NULL, NULL, 0);
        made->origin = node;
        made->disabled = node->disabled;
        if (node->child) {
            made->child = sg_graph_copy(node->child);
            made->child->owned = 1;
        }
        made->given = sg_copied(node->given, sizeof *node->given);
    }
    for (CUgraphNode node = graph->first; node; node = node->next) {
        CUgraphNode made = sg_graph_copy_of(copy, node);
        made->depend_count = node->depend_count;
        made->depends = sg_resize(NULL, (node->depend_count + 1) * sizeof *made->depends);
        made->edges = sg_copied(node->edges, node->depend_count * sizeof *node->edges);
        for (size_t i = 0; i < node->depend_count; i++) {
            made->depends[i] = sg_graph_copy_of(copy, node->depends[i]);
        }
    }
    return copy;
}

CUresult sg_graph_check_dependencies(CUgraphNode *out, CUgraph graph, const CUgraphNode *depends,
                                     size_t count)
{
    SG_ENTER();
    if (!out || !sg_handle_is(graph, SG_GRAPH) || (count && !depends)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (size_t i = 0; i < count; i++) {
        if (!sg_handle_is(depends[i], SG_GRAPH_NODE) || depends[i]->graph != graph) {
            return CUDA_ERROR_INVALID_VALUE;
        }
    }
    return CUDA_SUCCESS;
}
