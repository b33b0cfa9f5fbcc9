/* Graphs made by hand: nodes of every kind, what is asked of them, and what is changed afterwards. */
#include "simgpu_nodes.h"
#include "simgpu_conditions.h"

/* memset -> kernel -> copy -> host function, then everything is changed. */
static void changes(void)
{
    CUgraph graph, clone;
    CUgraphNode nodes[4], found;
    uint32_t one = 1, ten = 10, host[WORDS] = {0};
    CUdeviceptr other = at + 128;
    CUDA_MEMSET_NODE_PARAMS set = {
        .dst = at, .value = 7, .elementSize = 4, .width = WORDS, .height = 1};
    CUDA_MEMCPY3D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                          .srcDevice = at,
                          .dstMemoryType = CU_MEMORYTYPE_HOST,
                          .dstHost = host,
                          .WidthInBytes = sizeof host,
                          .Height = 1,
                          .Depth = 1};
    CUDA_HOST_NODE_PARAMS call = {count, &calls}, call_again;
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddMemsetNode(&nodes[0], graph, NULL, 0, &set, context));
    nodes[1] = add_kernel(graph, &nodes[0], "add_u32", (void *[]){&at, &one});
    OK(cuGraphAddMemcpyNode(&nodes[2], graph, &nodes[1], 1, &copy, context));
    OK(cuGraphAddHostNode(&nodes[3], graph, &nodes[2], 1, &call));
    CUgraphExec exec = ready(graph);
    play(exec);
    CHECK(host[0] == 8 && host[1] == 7 && calls == 1);

    CUDA_KERNEL_NODE_PARAMS launch;
    CUDA_KERNEL_NODE_PARAMS_v1 first;
    CUDA_MEMSET_NODE_PARAMS set_again;
    CUDA_MEMCPY3D copy_again;
    OK(cuGraphKernelNodeGetParams_v2(nodes[1], &launch));
    CHECK(launch.func == kernel("add_u32") && *(uint32_t *)launch.kernelParams[1] == 1);
    OK(cuGraphKernelNodeGetParams(nodes[1], &first));
    CHECK(*(CUdeviceptr *)first.kernelParams[0] == at);
    OK(cuGraphMemsetNodeGetParams(nodes[0], &set_again));
    CHECK(memcmp(&set, &set_again, sizeof set) == 0);
    OK(cuGraphMemcpyNodeGetParams(nodes[2], &copy_again));
    CHECK(copy_again.srcDevice == at && copy_again.dstHost == host &&
          copy_again.dstMemoryType == CU_MEMORYTYPE_HOST && copy_again.WidthInBytes == sizeof host);
    OK(cuGraphHostNodeGetParams(nodes[3], &call_again));
    CHECK(call_again.fn == count && call_again.userData == &calls);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphMemsetNodeGetParams(nodes[1], &set_again));

    /* What is launchable changes by itself; the graph stays what it is. */
    launch = launch_of("add_u32", (void *[]){&at, &ten});
    OK(cuGraphExecKernelNodeSetParams_v2(exec, nodes[1], &launch));
    set.value = 100;
    OK(cuGraphExecMemsetNodeSetParams(exec, nodes[0], &set, context));
    int others = 0;
    call.userData = &others;
    OK(cuGraphExecHostNodeSetParams(exec, nodes[3], &call));
    play(exec);
    CHECK(host[0] == 110 && host[1] == 100 && calls == 1 && others == 1);
    CUDA_MEMCPY3D back = copy;
    back.srcMemoryType = CU_MEMORYTYPE_HOST;
    back.srcHost = host;
    back.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    back.dstDevice = at;
    EXPECT(CUDA_ERROR_INVALID_VALUE,
           cuGraphExecMemcpyNodeSetParams(exec, nodes[2], &back, context)); /* another direction */
    copy.srcDevice = other;
    copy.WidthInBytes = 4;
    OK(cuGraphExecMemcpyNodeSetParams(exec, nodes[2], &copy, context));
    OK(cuGraphNodeSetEnabled(exec, nodes[1], 0));
    play(exec);
    CHECK(host[0] == 100 && word(0) == 100);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphExecHostNodeSetParams(exec, nodes[1], &call));

    /* A whole graph of the same form at once; its nodes are still known by those of the first. */
    OK(cuGraphClone(&clone, graph));
    OK(cuGraphNodeFindInClone(&found, nodes[0], clone));
    set.value = 5;
    OK(cuGraphMemsetNodeSetParams(found, &set));
    CUgraphExecUpdateResultInfo info;
    OK(cuGraphExecUpdate_v2(exec, clone, &info));
    CHECK(info.result == CU_GRAPH_EXEC_UPDATE_SUCCESS);
    OK(cuGraphNodeSetEnabled(exec, nodes[1], 1));
    play(exec);
    CHECK(host[0] == 6 && host[1] == 5);
    OK(cuGraphDestroyNode(found));
    EXPECT(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE, cuGraphExecUpdate_v2(exec, clone, &info));
    CHECK(info.result == CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
    OK(cuGraphDestroy(clone));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
}

static void edges(const char *folder)
{
    CUgraph graph;
    CUgraphNode a, b, from[2], to[2];
    CUgraphEdgeData data = {.from_port = 1, .type = 1}, told[2];
    size_t n = 2;
    uint32_t one = 1;
    char path[256], line[256];
    OK(cuGraphCreate(&graph, 0));
    a = add_kernel(graph, NULL, "add_u32", (void *[]){&at, &one});
    b = add_kernel(graph, NULL, "add_u32", (void *[]){&at, &one});
    OK(cuGraphAddDependencies_v2(graph, &a, &b, &data, 1));
    OK(cuGraphGetEdges_v2(graph, from, to, told, &n));
    CHECK(n == 1 && from[0] == a && to[0] == b && told[0].from_port == 1 && told[0].type == 1);
    n = 2;
    EXPECT(CUDA_ERROR_LOSSY_QUERY, cuGraphGetEdges(graph, from, to, &n));
    n = 2;
    OK(cuGraphNodeGetDependencies_v2(b, from, told, &n));
    CHECK(n == 1 && from[0] == a && told[0].from_port == 1);
    n = 2;
    OK(cuGraphNodeGetDependentNodes_v2(a, to, told, &n));
    CHECK(n == 1 && to[0] == b);
    OK(cuGraphRemoveDependencies_v2(graph, &a, &b, &data, 1));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphRemoveDependencies_v2(graph, &a, &b, &data, 1));
    OK(cuGraphAddDependencies(graph, &a, &b, 1));
    n = 2;
    OK(cuGraphGetEdges(graph, from, to, &n));
    CHECK(n == 1);
    OK(cuGraphAddDependencies(graph, &b, &a, 1)); /* a circle is found when it is to be launched */
    CUgraphExec exec;
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphInstantiateWithFlags(&exec, graph, 0));
    snprintf(path, sizeof path, "%s/graph.dot", folder);
    OK(cuGraphDebugDotPrint(graph, path, 0));
    FILE *dot = fopen(path, "r");
    CHECK(dot && fgets(line, sizeof line, dot) && !strncmp(line, "digraph", 7));
    int arrows = 0;
    while (fgets(line, sizeof line, dot)) {
        arrows += strstr(line, "->") != NULL;
    }
    CHECK(arrows == 2);
    fclose(dot);
    OK(cuGraphDestroy(graph));
}

static void events_and_words(void)
{
    CUgraph graph;
    CUgraphNode nodes[4];
    CUevent before, after, got;
    CUstream other;
    CUDA_BATCH_MEM_OP_NODE_PARAMS told;
    CUstreamBatchMemOpParams items[3] = {
        {.writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32, .address = at, .value = 9}},
        {.waitValue = {.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32,
                       .address = at + 4,
                       .value = 1,
                       .flags = CU_STREAM_WAIT_VALUE_GEQ}},
        {.writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_64,
                        .address = at + 8,
                        .value64 = 1ull << 40}}};
    CUDA_BATCH_MEM_OP_NODE_PARAMS batch = {context, 3, items, 0};
    uint64_t us = 20000, wide;
    clear();
    OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&before, CU_EVENT_DISABLE_TIMING));
    OK(cuEventCreate(&after, CU_EVENT_DISABLE_TIMING));
    OK(cuCtxSynchronize());
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphAddEventWaitNode(&nodes[0], graph, NULL, 0, before));
    OK(cuGraphAddEventRecordNode(&nodes[1], graph, &nodes[0], 1, after));
    OK(cuGraphAddBatchMemOpNode(&nodes[2], graph, &nodes[1], 1, &batch));
    OK(cuGraphEventRecordNodeGetEvent(nodes[1], &got));
    CHECK(got == after);
    OK(cuGraphEventWaitNodeGetEvent(nodes[0], &got));
    CHECK(got == before);
    OK(cuGraphBatchMemOpNodeGetParams(nodes[2], &told));
    CHECK(told.count == 3 && told.paramArray[2].writeValue.value64 == 1ull << 40);
    CUgraphExec exec = ready(graph);
    LAUNCH(kernel("spin_us"), other, &us);
    OK(cuEventRecord(before, other));
    OK(cuGraphLaunch(exec, stream));
    EXPECT(CUDA_ERROR_NOT_READY, cuEventQuery(after)); /* the graph waits for the other stream */
    OK(cuEventSynchronize(after)); /* although the graph is not through: it waits for a word */
    EXPECT(CUDA_ERROR_NOT_READY, cuStreamQuery(stream));
    uint32_t one = 1;
    OK(cuMemcpyHtoDAsync_v2(at + 4, &one, 4, other));
    OK(cuStreamSynchronize(stream));
    OK(cuMemcpyDtoH_v2(&wide, at + 8, 8));
    CHECK(word(0) == 9 && wide == 1ull << 40);
    items[0].writeValue.value = 10;
    OK(cuGraphExecBatchMemOpNodeSetParams(exec, nodes[2], &batch));
    play(exec);
    CHECK(word(0) == 10);
    OK(cuGraphExecEventWaitNodeSetEvent(exec, nodes[0], after));
    play(exec);
    items[1].waitValue.address = 2;
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphBatchMemOpNodeSetParams(nodes[2], &batch));
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));

    /* The same out of a capture. */
    OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuStreamWaitEvent(stream, before, CU_EVENT_WAIT_EXTERNAL));
    OK(cuEventRecordWithFlags(after, stream, CU_EVENT_RECORD_EXTERNAL));
    OK(cuStreamWriteValue32_v2(stream, at, 77, 0));
    OK(cuStreamEndCapture(stream, &graph));
    size_t n = 4;
    CUgraphNodeType types[3];
    OK(cuGraphGetNodes(graph, nodes, &n));
    CHECK(n == 3);
    for (int i = 0; i < 3; i++) {
        OK(cuGraphNodeGetType(nodes[i], &types[i]));
    }
    CHECK(types[0] == CU_GRAPH_NODE_TYPE_WAIT_EVENT &&
          types[1] == CU_GRAPH_NODE_TYPE_EVENT_RECORD &&
          types[2] == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP);
    exec = ready(graph);
    play(exec);
    OK(cuEventQuery(after));
    CHECK(word(0) == 77);
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
}

static void destroy_object(void *data) { ++*(int *)data; }

/* Every type through the calls that take all of them, and objects that live with their graphs. */
static void any_type(void)
{
    CUgraph graph, child, clone;
    CUgraphNode node, inner;
    CUgraphExec exec;
    CUuserObject object;
    uint32_t one = 1, two = 2;
    int destroyed = 0;
    clear();
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphCreate(&child, 0));
    add_kernel(child, NULL, "add_u32", (void *[]){&at, &one});
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_GRAPH, .graph = {.graph = child}};
    OK(cuGraphAddNode(&node, graph, NULL, 0, &params));
    OK(cuGraphChildGraphNodeGetGraph(node, &clone));
    CHECK(clone != child);
    size_t n = 1;
    OK(cuGraphGetNodes(clone, &inner, &n));
    params = (CUgraphNodeParams){0};
    OK(cuGraphNodeGetParams(inner, &params));
    CHECK(params.type == CU_GRAPH_NODE_TYPE_KERNEL && params.kernel.func == kernel("add_u32"));
    OK(cuUserObjectCreate(&object, &destroyed, destroy_object, 1,
                          CU_USER_OBJECT_NO_DESTRUCTOR_SYNC));
    OK(cuGraphRetainUserObject(graph, object, 1, CU_GRAPH_USER_OBJECT_MOVE));
    exec = ready(graph);
    OK(cuGraphDestroy(graph));
    CHECK(!destroyed);
    params.kernel.kernelParams = (void *[]){&at, &two};
    OK(cuGraphExecNodeSetParams(exec, inner, &params)); /* in the child graph */
    play(exec);
    CHECK(word(0) == 2);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphExecChildGraphNodeSetParams(exec, inner, child));
    OK(cuGraphExecChildGraphNodeSetParams(exec, node, child));
    play(exec);
    CHECK(word(0) == 3);

    /* A graph that is launched into a capture becomes a part of it. */
    OK(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamEndCapture(stream, &graph));
    n = 1;
    OK(cuGraphGetNodes(graph, &node, &n));
    CUgraphNodeType type;
    OK(cuGraphNodeGetType(node, &type));
    CHECK(n == 1 && type == CU_GRAPH_NODE_TYPE_GRAPH);
    OK(cuGraphExecDestroy(exec));
    exec = ready(graph);
    play(exec);
    CHECK(word(0) == 4 && !destroyed);
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphDestroy(graph));
    CHECK(destroyed == 1);
    OK(cuGraphDestroy(child));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuGraphDestroy(child));
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    context = begin();
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc_v2(&at, WORDS * sizeof(uint32_t)));
    kernel("nop");
    changes();
    edges(argv[1]);
    int version = 0;
    OK(cuDriverGetVersion(&version));
    if (version < 12080) {
        first_conditions();
    } else {
        conditions();
    }
    events_and_words();
    any_type();
    puts("ok");
    return 0;
}
