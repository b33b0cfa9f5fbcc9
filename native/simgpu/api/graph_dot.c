/* cuGraphDebugDotPrint: writes a graph as a file for Graphviz. */
#include <stdio.h>

#include "simgpu/base/entry.h"
#include "simgpu/base/handles.h"
#include "simgpu/exec/module.h"
#include "simgpu/graph/graph.h"

static const char *type_name(CUgraphNodeType type)
{
    switch ((int)type) {
    case CU_GRAPH_NODE_TYPE_KERNEL:
        return "KERNEL";
    case CU_GRAPH_NODE_TYPE_MEMCPY:
        return "MEMCPY";
    case CU_GRAPH_NODE_TYPE_MEMSET:
        return "MEMSET";
    case CU_GRAPH_NODE_TYPE_HOST:
        return "HOST";
    case CU_GRAPH_NODE_TYPE_GRAPH:
        return "GRAPH";
    case CU_GRAPH_NODE_TYPE_EMPTY:
        return "EMPTY";
    case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
        return "EVENT_WAIT";
    case CU_GRAPH_NODE_TYPE_EVENT_RECORD:
        return "EVENT_RECORD";
    case CU_GRAPH_NODE_TYPE_MEM_ALLOC:
        return "MEM_ALLOC";
    case CU_GRAPH_NODE_TYPE_MEM_FREE:
        return "MEM_FREE";
    case CU_GRAPH_NODE_TYPE_BATCH_MEM_OP:
        return "BATCH_MEM_OP";
    case CU_GRAPH_NODE_TYPE_CONDITIONAL:
        return "CONDITIONAL";
    default:
        return "?";
    }
}

static void draw(FILE *out, CUgraph graph)
{
    fprintf(out, "subgraph cluster_%u {\nlabel=\"graph_%u\"\n", graph->id, graph->id);
    for (CUgraphNode node = graph->first; node; node = node->next) {
        fprintf(out, "\"graph_%u_node_%u\" [label=\"%u\\n%s", graph->id, node->id, node->id,
                type_name(node->type));
        if (node->type == CU_GRAPH_NODE_TYPE_KERNEL) {
            fprintf(out, "\\n%s", node->op->kernel.function->name);
        }
        fputs("\"]\n", out);
        for (size_t i = 0; i < node->depend_count; i++) {
            fprintf(out, "\"graph_%u_node_%u\" -> \"graph_%u_node_%u\"\n", graph->id,
                    node->depends[i]->id, graph->id, node->id);
        }
    }
    fputs("}\n", out);
    for (CUgraphNode node = graph->first; node; node = node->next) {
        if (node->child) {
            draw(out, node->child);
        }
    }
}

CUresult cuGraphDebugDotPrint(CUgraph graph, const char *path, unsigned int flags)
{
    SG_ENTER();
    (void)flags; /* how much of each node is said */
    if (!path || !sg_handle_is(graph, SG_GRAPH)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    FILE *out = fopen(path, "we");
    if (!out) {
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    fputs("digraph dot {\n", out);
    draw(out, graph);
    fputs("}\n", out);
    return fclose(out) == 0 ? CUDA_SUCCESS : CUDA_ERROR_OPERATING_SYSTEM;
}
