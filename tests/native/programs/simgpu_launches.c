/* What a launch may be told beside its shape: simgpu_launches MULTIPROCESSORS HAS_CLUSTERS */
#include <stdint.h>

#include "simgpu_check.h"

static CUfunction nop;
static CUlaunchAttribute attributes[3];
static CUlaunchConfig config = {.blockDimX = 256,
                                .blockDimY = 1,
                                .blockDimZ = 1,
                                .gridDimY = 1,
                                .gridDimZ = 1,
                                .attrs = attributes};

static CUresult launch(unsigned blocks, unsigned count)
{
    config.gridDimX = blocks;
    config.numAttrs = count;
    return cuLaunchKernelEx(&config, nop, NULL, NULL);
}

static void clustered(unsigned x)
{
    attributes[0] = (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                                        .value = {.clusterDim = {x, 1, 1}}};
}

int main(int argc, char **argv)
{
    int each, clusters, largest;
    CUevent event, completion;
    CUgraph graph;
    CUgraphNode node;
    CUlaunchAttributeValue told;
    size_t count = 1;
    CHECK(argc == 3);
    unsigned processors = (unsigned)atoi(argv[1]);
    begin();
    nop = kernel("nop");
    OK(cuStreamCreate(&config.hStream, CU_STREAM_NON_BLOCKING));

    /* All at once, or not at all. */
    OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&each, nop, 256, 0));
    unsigned most = processors * (unsigned)each;
    attributes[0] =
        (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value = {.cooperative = 1}};
    OK(launch(most, 1));
    EXPECT(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, launch(most + 1, 1));
    OK(launch(most + 1, 0));
    OK(cuLaunchCooperativeKernel(nop, most, 1, 1, 256, 1, 1, 0, config.hStream, NULL));
    EXPECT(CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE,
           cuLaunchCooperativeKernel(nop, most, 2, 1, 256, 1, 1, 0, config.hStream, NULL));
    attributes[0].value.cooperative = 0;
    OK(launch(most + 1, 1));
    memset(&attributes[0].id, 0x7f, sizeof attributes[0].id); /* no such attribute */
    EXPECT(CUDA_ERROR_INVALID_VALUE, launch(1, 1));

    /* Clusters. */
    OK(cuOccupancyMaxPotentialClusterSize(&largest, nop, &config));
    config.numAttrs = 1;
    if (!atoi(argv[2])) {
        CHECK(largest == 1);
        clustered(2);
        EXPECT(CUDA_ERROR_INVALID_CLUSTER_SIZE, launch(8, 1));
        EXPECT(CUDA_ERROR_INVALID_CLUSTER_SIZE,
               cuOccupancyMaxActiveClusters(&clusters, nop, &config));
        puts("ok");
        return 0;
    }
    CHECK(largest == 8);
    clustered(8);
    OK(launch(16, 1));
    EXPECT(CUDA_ERROR_INVALID_CLUSTER_SIZE, launch(20, 1));
    OK(cuOccupancyMaxActiveClusters(&clusters, nop, &config));
    CHECK((unsigned)clusters == most / 8);
    clustered(16);
    EXPECT(CUDA_ERROR_INVALID_CLUSTER_SIZE, launch(16, 1));
    OK(cuFuncSetAttribute(nop, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
    OK(launch(16, 1));
    OK(cuOccupancyMaxPotentialClusterSize(&largest, nop, &config));
    CHECK(largest == 16);
    clustered(0);
    EXPECT(CUDA_ERROR_INVALID_CLUSTER_SIZE, launch(16, 1));

    /* Events that stand for a launch, and what a capture keeps of it. */
    OK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    OK(cuEventCreate(&completion, CU_EVENT_DISABLE_TIMING));
    clustered(2);
    attributes[1] = (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT,
                                        .value = {.programmaticEvent = {event, 0, 0}}};
    attributes[2] = (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT,
                                        .value = {.launchCompletionEvent = {completion, 0}}};
    OK(launch(2, 3));
    OK(cuEventSynchronize(event));
    OK(cuEventSynchronize(completion));
    attributes[1] = (CUlaunchAttribute){.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                                        .value = {.programmaticStreamSerializationAllowed = 1}};
    OK(launch(2, 2));
    OK(cuStreamBeginCapture_v2(config.hStream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    OK(launch(2, 1));
    OK(cuStreamEndCapture(config.hStream, &graph));
    OK(cuGraphGetNodes(graph, &node, &count));
    OK(cuGraphKernelNodeGetAttribute(node, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &told));
    CHECK(told.clusterDim.x == 2 && told.clusterDim.y == 1);
    told.clusterDim.x = 4;
    EXPECT(CUDA_ERROR_INVALID_CLUSTER_SIZE,
           cuGraphKernelNodeSetAttribute(node, CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, &told));
    OK(cuGraphDestroy(graph));
    puts("ok");
    return 0;
}
