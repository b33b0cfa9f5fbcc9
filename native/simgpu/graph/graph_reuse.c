#include "simgpu/graph/graph_reuse.h"

#include "simgpu/graph/graph_memory.h"

static int is_before(CUgraphNode node, const CUgraphNode *after, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (sg_graph_leads_to(node, after[i])) {
            return 1;
        }
    }
    return 0;
}

int sg_graph_memory_is_free(CUgraph graph, const struct sg_graph_memory *memory,
                            const CUgraphNode *after, size_t count)
{
    int allocated = 0;
    for (CUgraphNode node = graph->first; node; node = node->next) {
        const struct sg_op *op = node->op;
        int frees = op && op->kind == &sg_kind_graph_free && op->memory == memory;
        allocated += op && op->kind == &sg_kind_graph_alloc && op->memory == memory;
        allocated -= frees;
        if (frees && !is_before(node, after, count)) {
            return 0;
        }
    }
    return !allocated;
}
