/* Graphs made by hand: nodes whose bodies run on a condition, or as long as it holds. */
#ifndef SIMGPU_CONDITIONS_H
#define SIMGPU_CONDITIONS_H

#include "simgpu_nodes.h"

static inline CUgraphNode add_conditional(CUgraph graph, CUgraphNode *after,
                                          CUgraphConditionalHandle handle,
                                          CUgraphConditionalNodeType type, unsigned size,
                                          CUgraph *bodies)
{
    CUgraphNode node;
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL,
                                .conditional = {handle, type, size, NULL, context}};
    OK(cuGraphAddNode_v2(&node, graph, after, NULL, after ? 1 : 0, &params));
    memcpy(bodies, params.conditional.phGraph_out, size * sizeof *bodies);
    return node;
}

static inline int is_refused(CUgraph graph, CUgraphConditionalHandle handle,
                             CUgraphConditionalNodeType type, unsigned size)
{
    CUgraphNode node;
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL,
                                .conditional = {handle, type, size, NULL, context}};
    return cuGraphAddNode_v2(&node, graph, NULL, NULL, 0, &params) == CUDA_ERROR_INVALID_VALUE;
}

/* A driver before 12.8 knows `if` without `else`, and `while`. */
static inline void first_conditions(void)
{
    CUgraph graph, body;
    CUgraphConditionalHandle once;
    CUdeviceptr ifs = at;
    CUgraphExec exec;
    uint32_t one = 1;
    clear();
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphConditionalHandleCreate(&once, graph, context, 1, CU_GRAPH_COND_ASSIGN_DEFAULT));
    CHECK(is_refused(graph, once, CU_GRAPH_COND_TYPE_IF, 2));
    CHECK(is_refused(graph, once, CU_GRAPH_COND_TYPE_SWITCH, 1));
    CHECK(is_refused(graph, once, CU_GRAPH_COND_TYPE_WHILE, 2));
    add_conditional(graph, NULL, once, CU_GRAPH_COND_TYPE_IF, 1, &body);
    add_kernel(body, NULL, "add_u32", (void *[]){&ifs, &one});
    exec = ready(graph);
    play(exec);
    play(exec);
    CHECK(word(0) == 2);
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
}

static inline void conditions(void)
{
    CUgraph graph, body, both[2], three[3], inner, clone;
    CUgraphConditionalHandle loop, choice, way;
    CUdeviceptr rounds = at, ifs = at + 4, elses = at + 8, ways = at + 12;
    uint32_t one = 1, zero = 0, two = 2, four = 4;
    CUgraphExec exec;
    clear();
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphConditionalHandleCreate(&loop, graph, context, 1, CU_GRAPH_COND_ASSIGN_DEFAULT));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphInstantiateWithFlags(&exec, graph, 0)); /* unused */
    OK(cuGraphConditionalHandleCreate(&choice, graph, context, 0, 0));
    OK(cuGraphConditionalHandleCreate(&way, graph, context, 2, CU_GRAPH_COND_ASSIGN_DEFAULT));
    /* four rounds, with a choice in each: rounds left is what the loop's condition becomes */
    CUDA_MEMSET_NODE_PARAMS set = {
        .dst = rounds, .value = 4, .elementSize = 4, .width = 1, .height = 1};
    CUgraphNode start, last;
    OK(cuGraphAddMemsetNode(&start, graph, NULL, 0, &set, context));
    last = add_conditional(graph, &start, loop, CU_GRAPH_COND_TYPE_WHILE, 1, &body);
    CUgraphNode down = add_kernel(body, NULL, "count_down", (void *[]){&rounds, &loop});
    CUgraphNode says = add_kernel(body, &down, "set_condition", (void *[]){&choice, &one});
    CUgraphNode asks = add_conditional(body, &says, choice, CU_GRAPH_COND_TYPE_IF, 2, both);
    add_kernel(both[0], NULL, "add_u32", (void *[]){&ifs, &one});
    add_kernel(both[1], NULL, "add_u32", (void *[]){&elses, &one});
    CUgraphNode unsays = add_kernel(body, &asks, "set_condition", (void *[]){&choice, &zero});
    add_conditional(body, &unsays, choice, CU_GRAPH_COND_TYPE_IF, 1, &inner);
    add_kernel(inner, NULL, "add_u32", (void *[]){&elses, &four});
    add_conditional(graph, &last, way, CU_GRAPH_COND_TYPE_SWITCH, 3, three);
    for (uint32_t i = 0; i < 3; i++) {
        add_kernel(three[i], NULL, "add_u32", (void *[]){&ways, i == 2 ? &two : &four});
    }
    exec = ready(graph);
    play(exec);
    play(exec);
    CHECK(word(0) == 0 && word(1) == 8 && word(2) == 0 && word(3) == 4);
    CUDA_KERNEL_NODE_PARAMS launch = launch_of("set_condition", (void *[]){&choice, &zero});
    OK(cuGraphExecKernelNodeSetParams_v2(exec, says, &launch)); /* inside the loop */
    play(exec);
    CHECK(word(1) == 8 && word(2) == 4);
    EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuGraphClone(&clone, graph));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphDestroy(body)); /* the node's */
    CUgraphNodeParams wrong = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL,
                               .conditional = {loop, CU_GRAPH_COND_TYPE_WHILE, 2, NULL, context}};
    CUgraphNode node;
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddNode_v2(&node, graph, NULL, NULL, 0, &wrong));
    wrong.conditional.size = 1;
    wrong.conditional.handle = 1;
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphAddNode_v2(&node, graph, NULL, NULL, 0, &wrong));
    CUDA_HOST_NODE_PARAMS call = {count, &calls};
    OK(cuGraphAddHostNode(&node, both[1], NULL, 0, &call)); /* which no body may have */
    CUgraphExec another;
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphInstantiateWithFlags(&another, graph, 0));
    OK(cuGraphDestroy(graph));
    play(exec); /* it lives on without the graph */
    CHECK(word(2) == 8);
    OK(cuGraphExecDestroy(exec));
}

#endif
