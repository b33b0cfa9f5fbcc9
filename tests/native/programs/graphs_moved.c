/* Graphs made by hand, while memory goes and comes back:  graphs_moved KERNELS
 *
 * At each "moved" whoever drives the test takes the GPU and all memory away, gives both back, and sends a
 * line. At each "away" it sends the line when all is away, and gives it back when somebody stands at the
 * gate. At each "runs" a graph is under way. Exit code 0: every graph did what it says each time. */
#include <stdint.h>

#include "simgpu_check.h"

#define WORDS 1024u
#define LARGE ((size_t)12 << 20)

enum { SET, ADD, CHILD, COPY, CALL, BATCH, WAIT, LOOP, RECORD, NODES };

static CUcontext context;
static CUstream stream;
static CUdeviceptr at, large, counter;
static uint32_t *host; /* what the graph's copy brings */
static int calls;
static CUevent before, after;

static void count(void *data) { ++*(int *)data; }

static void pause_for_test(const char *what)
{
    char line[16];
    puts(what);
    fflush(stdout);
    CHECK(fgets(line, sizeof line, stdin));
}

static CUDA_KERNEL_NODE_PARAMS launch_of(const char *name, void **params)
{
    return (CUDA_KERNEL_NODE_PARAMS){.func = kernel(name),
                                     .gridDimX = 1,
                                     .gridDimY = 1,
                                     .gridDimZ = 1,
                                     .blockDimX = 1,
                                     .blockDimY = 1,
                                     .blockDimZ = 1,
                                     .kernelParams = params};
}

static CUDA_MEMCPY3D copy_of(CUdeviceptr from)
{
    return (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_UNIFIED,
                           .srcDevice = from,
                           .dstMemoryType = CU_MEMORYTYPE_HOST,
                           .dstHost = host,
                           .WidthInBytes = WORDS * sizeof *host,
                           .Height = 1,
                           .Depth = 1};
}

static CUDA_MEMSET_NODE_PARAMS set_of(uint32_t value)
{
    return (CUDA_MEMSET_NODE_PARAMS){
        .dst = at, .value = value, .elementSize = 4, .width = WORDS, .height = 1};
}

static CUstreamBatchMemOpParams write_of(uint32_t value)
{
    return (CUstreamBatchMemOpParams){.writeValue = {.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32,
                                                     .address = counter,
                                                     .value = value}};
}

/* set -> add -> child(add) -> wait for the event -> write 3 -> loop(three times: add) -> copy -> call -> record:
 * word 0 becomes `base` and 5, all others `base`. */
static CUgraph make(CUgraphNode nodes[NODES], uint32_t base)
{
    uint32_t one = 1;
    CUgraph graph, child, body;
    CUgraphNode node;
    CUgraphConditionalHandle handle;
    CUDA_MEMSET_NODE_PARAMS set = set_of(base);
    CUDA_KERNEL_NODE_PARAMS add = launch_of("add_u32", (void *[]){&at, &one});
    CUDA_MEMCPY3D copy = copy_of(at);
    CUstreamBatchMemOpParams item = write_of(3);
    CUDA_BATCH_MEM_OP_NODE_PARAMS batch = {context, 1, &item, 0};
    CUDA_HOST_NODE_PARAMS call = {count, &calls};
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphCreate(&child, 0));
    OK(cuGraphAddKernelNode_v2(&node, child, NULL, 0, &add));
    OK(cuGraphAddMemsetNode(&nodes[SET], graph, NULL, 0, &set, context));
    OK(cuGraphAddKernelNode_v2(&nodes[ADD], graph, &nodes[SET], 1, &add));
    OK(cuGraphAddChildGraphNode(&nodes[CHILD], graph, &nodes[ADD], 1, child));
    OK(cuGraphAddEventWaitNode(&nodes[WAIT], graph, &nodes[CHILD], 1, before));
    OK(cuGraphAddBatchMemOpNode(&nodes[BATCH], graph, &nodes[WAIT], 1, &batch));
    OK(cuGraphConditionalHandleCreate(&handle, graph, context, 1, CU_GRAPH_COND_ASSIGN_DEFAULT));
    CUgraphNodeParams loop = {.type = CU_GRAPH_NODE_TYPE_CONDITIONAL,
                              .conditional = {handle, CU_GRAPH_COND_TYPE_WHILE, 1, NULL, context}};
    OK(cuGraphAddNode_v2(&nodes[LOOP], graph, &nodes[BATCH], NULL, 1, &loop));
    body = loop.conditional.phGraph_out[0];
    OK(cuGraphAddKernelNode_v2(&node, body, NULL, 0, &add));
    CUDA_KERNEL_NODE_PARAMS down = launch_of("count_down", (void *[]){&counter, &handle});
    OK(cuGraphAddKernelNode_v2(&node, body, &node, 1, &down));
    OK(cuGraphAddMemcpyNode(&nodes[COPY], graph, &nodes[LOOP], 1, &copy, context));
    OK(cuGraphAddHostNode(&nodes[CALL], graph, &nodes[COPY], 1, &call));
    OK(cuGraphAddEventRecordNode(&nodes[RECORD], graph, &nodes[CALL], 1, after));
    OK(cuGraphDestroy(child));
    return graph;
}

static void play(CUgraphExec exec, uint32_t first, uint32_t others)
{
    int so_far = calls;
    memset(host, 0, WORDS * sizeof *host);
    OK(cuGraphLaunch(exec, stream));
    OK(cuEventSynchronize(after));
    OK(cuStreamSynchronize(stream));
    CHECK(host[0] == first && host[1] == others && host[WORDS - 1] == others);
    CHECK(calls == so_far + 1);
}

static void check_large(void)
{
    uint64_t words = LARGE / 8, seed = 3, zero = 0, none = 0, wrong = 1;
    CUdeviceptr steps = counter + 8, errors = counter + 16;
    OK(cuMemcpyHtoD_v2(steps, &none, 8));
    OK(cuMemcpyHtoD_v2(errors, &none, 8));
    LAUNCH(kernel("check_u64"), stream, &large, &words, &seed, &steps, &zero, &errors);
    OK(cuStreamSynchronize(stream));
    OK(cuMemcpyDtoH_v2(&wrong, errors, 8));
    CHECK(wrong == 0);
}

int main(int argc, char **argv)
{
    CUgraph graph, second, clone;
    CUgraphExec exec;
    CUgraphNode nodes[NODES], others[NODES], found;
    CUgraphExecUpdateResultInfo info;
    uint64_t words = LARGE / 8, seed = 3, us = 30000;
    uint32_t seven = 7;
    CHECK(argc == 2 && setenv("KERNELS", argv[1], 1) == 0);
    context = begin();
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc_v2(&at, WORDS * sizeof *host));
    OK(cuMemAlloc_v2(&counter, 4096));
    OK(cuMemAlloc_v2(&large, LARGE));
    OK(cuMemHostAlloc((void **)&host, WORDS * sizeof *host, 0));
    OK(cuEventCreate(&before, CU_EVENT_DISABLE_TIMING));
    OK(cuEventCreate(&after, CU_EVENT_DISABLE_TIMING));
    LAUNCH(kernel("fill_u64"), stream, &large, &words, &seed);
    OK(cuEventRecord(before, stream));

    graph = make(nodes, 100);
    OK(cuGraphInstantiateWithFlags(&exec, graph, 0));
    play(exec, 105, 100);
    for (int i = 0; i < 3; i++) {
        pause_for_test("moved");
        play(exec, 105, 100);
        check_large();
    }
    for (int i = 0; i < 3; i++) { /* what is under way ends before anything is moved */
        LAUNCH(kernel("spin_us"), stream, &us);
        OK(cuGraphLaunch(exec, stream));
        LAUNCH(kernel("spin_us"), stream, &us);
        OK(cuGraphLaunch(exec, stream));
        pause_for_test("moved");
        OK(cuStreamSynchronize(stream));
        CHECK(host[0] == 105);
    }

    /* Graphs are made and changed while nothing is there that they are about. */
    pause_for_test("away");
    second = make(others, 200);
    OK(cuGraphExecUpdate_v2(exec, second, &info));
    play(exec, 205, 200);
    pause_for_test("away");
    CUDA_MEMSET_NODE_PARAMS set = set_of(300);
    OK(cuGraphExecMemsetNodeSetParams(exec, nodes[SET], &set, context));
    play(exec, 305, 300);
    pause_for_test("away");
    CUDA_MEMCPY3D copy = copy_of(at);
    OK(cuGraphExecMemcpyNodeSetParams(exec, nodes[COPY], &copy, context));
    CUDA_KERNEL_NODE_PARAMS add = launch_of("add_u32", (void *[]){&at, &seven});
    OK(cuGraphExecKernelNodeSetParams_v2(exec, nodes[ADD], &add));
    play(exec, 311, 300);
    pause_for_test("away");
    CUstreamBatchMemOpParams item = write_of(5);
    CUDA_BATCH_MEM_OP_NODE_PARAMS batch = {context, 1, &item, 0};
    OK(cuGraphExecBatchMemOpNodeSetParams(exec, nodes[BATCH], &batch));
    play(exec, 313, 300);
    pause_for_test("away");
    CUgraphNodeParams params = {.type = CU_GRAPH_NODE_TYPE_MEMCPY,
                                .memcpy = {.copyCtx = context, .copyParams = copy_of(at)}};
    OK(cuGraphAddNode_v2(&found, second, NULL, NULL, 0, &params));
    OK(cuGraphDestroyNode(found));

    /* A clone has what the graph has, also where it was moved between. */
    CUgraph plain;
    OK(cuGraphCreate(&plain, 0));
    set = set_of(400);
    OK(cuGraphAddMemsetNode(&nodes[SET], plain, NULL, 0, &set, context));
    OK(cuGraphAddMemcpyNode(&nodes[COPY], plain, &nodes[SET], 1, &copy, context));
    OK(cuGraphClone(&clone, plain));
    pause_for_test("moved");
    OK(cuGraphExecDestroy(exec));
    OK(cuGraphInstantiateWithFlags(&exec, clone, 0));
    OK(cuGraphNodeFindInClone(&found, nodes[SET], clone));
    OK(cuGraphNodeSetEnabled(exec, found, 0));
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    CHECK(host[0] == 313);
    OK(cuGraphNodeSetEnabled(exec, found, 1));
    OK(cuGraphLaunch(exec, stream));
    OK(cuStreamSynchronize(stream));
    CHECK(host[0] == 400 && host[WORDS - 1] == 400);
    check_large();
    puts("done");
    return 0;
}
