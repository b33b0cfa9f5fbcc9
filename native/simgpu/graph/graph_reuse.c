#include "simgpu/graph/graph_reuse.h"

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
        int frees = node->type == CU_GRAPH_NODE_TYPE_MEM_FREE && node->op->memory == memory;
        allocated += node->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC && node->op->memory == memory;
        allocated -= frees;
        if (frees && !is_before(node, after, count)) {
            return 0;
        }
    }
    return !allocated;
}
