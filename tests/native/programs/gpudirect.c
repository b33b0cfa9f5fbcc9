/* Memory that a network card could use: what the driver says of it, and how it is registered.
 *
 *     gpudirect WORD
 *
 * tokens: it asks for the P2P tokens of one of two allocations; list: the same among other attributes; memops: it sets
 * SYNC_MEMOPS; nothing: none of these. It says what it was told, and holds on until its input ends. */
#include "mistakes.h"

int main(int argc, char **argv)
{
    CUcontext context;
    CUdeviceptr at, other;
    CUDA_POINTER_ATTRIBUTE_P2P_TOKENS tokens = {0};
    unsigned on = 1, memory_type = 0;
    unsigned char capable = 2, other_capable = 2;
    const char *word = argc > 1 ? argv[1] : "";
    CUpointer_attribute list[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                  CU_POINTER_ATTRIBUTE_P2P_TOKENS};
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuMemAlloc_v2(&at, 6 * MIB));
    OK(cuMemAlloc_v2(&other, 4 * MIB));
    OK(cuPointerGetAttribute(&capable, CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE, at));
    OK(cuPointerGetAttribute(&other_capable, CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE,
                             other));
    CUresult result = CUDA_SUCCESS;
    if (!strcmp(word, "tokens")) {
        result = cuPointerGetAttribute(&tokens, CU_POINTER_ATTRIBUTE_P2P_TOKENS, at);
    } else if (!strcmp(word, "list")) {
        result = cuPointerGetAttributes(2, list, (void *[]){&memory_type, &tokens}, at);
    } else if (!strcmp(word, "memops")) {
        result = cuPointerSetAttribute(&on, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at);
    }
    printf("%d %d %d\n", capable, other_capable, (int)result);
    fflush(stdout);
    while (getchar() != EOF) {
    }
    return 0;
}
