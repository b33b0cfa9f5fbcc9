#include "shim/mem/chunk.h"

#include <stdlib.h>

#include "shim/base/driver.h"
#include "shim/base/message.h"

static const bool transitions[][CHUNK_DECOMMITTED + 1] = {
    [CHUNK_UNTOUCHED] = {[CHUNK_RESIDENT] = true, [CHUNK_DECOMMITTED] = true},
    [CHUNK_RESIDENT] = {[CHUNK_UNTOUCHED] = true, /* it is cached for another allocation */
                        [CHUNK_MOVING] = true,
                        [CHUNK_EVICTED] = true, /* it holds zeros: there is nothing to copy */
                        [CHUNK_DECOMMITTED] = true},
    [CHUNK_MOVING] = {[CHUNK_RESIDENT] = true, [CHUNK_EVICTED] = true},
    [CHUNK_EVICTED] = {[CHUNK_RESIDENT] = true, /* its context is broken, and its bytes are lost */
                       [CHUNK_MOVING] = true,
                       [CHUNK_DECOMMITTED] = true},
};

bool chunk_may_transition(enum chunk_state from, enum chunk_state to)
{
    return from < CHUNK_DECOMMITTED && to <= CHUNK_DECOMMITTED && transitions[from][to];
}

void chunk_transition(struct chunk *chunk, enum chunk_state to)
{
#ifdef MOIETY_DEBUG
    if (!chunk_may_transition(chunk->state, to)) {
        message_print(NULL, "a chunk cannot go from state %d to %d", (int)chunk->state, (int)to);
        abort();
    }
#endif
    chunk->state = to;
}

static bool has(CUdevice device, CUdevice_attribute attribute)
{
    int supported = 0;
    return DRIVER(cuDeviceGetAttribute)(&supported, attribute, device) == CUDA_SUCCESS && supported;
}

/* As memory of cuMemAlloc: other processes can open it, and network cards can use it. Neither can be
 * changed later. */
static CUmemAllocationProp properties(CUdevice device)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, device}};
    if (has(device, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED)) {
        prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    }
    prop.allocFlags.gpuDirectRDMACapable =
        has(device, CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED);
    return prop;
}

static CUresult back(struct chunk *chunk, CUdeviceptr at, const CUmemAllocationProp *prop)
{
    CUresult result = CUDA_SUCCESS;
    if (!chunk->handle) {
        result = DRIVER(cuMemCreate)(&chunk->handle, chunk->bytes, prop, 0);
    }
    if (result != CUDA_SUCCESS) {
        chunk->handle = 0;
        return result;
    }
    result = DRIVER(cuMemMap)(at, chunk->bytes, 0, chunk->handle, 0);
    if (result != CUDA_SUCCESS) {
        DRIVER(cuMemRelease)(chunk->handle);
        chunk->handle = 0;
    }
    return result;
}

CUresult chunks_access(CUdeviceptr at, uint64_t bytes, uint64_t peers, CUmemAccess_flags flags)
{
    CUmemAccessDesc access[64];
    size_t count = 0;
    for (CUdevice device = 0; device < 64; device++) {
        if (peers >> device & 1) {
            access[count++] = (CUmemAccessDesc){{CU_MEM_LOCATION_TYPE_DEVICE, device}, flags};
        }
    }
    return count ? DRIVER(cuMemSetAccess)(at, bytes, access, count) : CUDA_SUCCESS;
}

uint32_t chunks_map(struct chunk *chunks, uint32_t count, CUdeviceptr at, CUdevice device,
                    uint64_t peers, CUresult *result)
{
    CUmemAllocationProp prop = properties(device);
    uint64_t span = 0;
    uint32_t mapped = 0;
    *result = CUDA_SUCCESS;
    while (mapped < count) {
        *result = back(&chunks[mapped], at + span, &prop);
        if (*result != CUDA_SUCCESS) {
            break;
        }
        span += chunks[mapped].bytes;
        mapped++;
    }
    CUresult allowed =
        span ? chunks_access(at, span, peers | 1ull << device, CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
             : CUDA_SUCCESS;
    if (allowed != CUDA_SUCCESS) {
        *result = allowed;
    }
    for (uint32_t i = 0; i < mapped; i++) {
        if (allowed != CUDA_SUCCESS) {
            chunk_unmap(&chunks[i], at);
        }
        at += chunks[i].bytes;
    }
    return allowed == CUDA_SUCCESS ? mapped : 0;
}

void chunk_unmap(struct chunk *chunk, CUdeviceptr at)
{
    DRIVER(cuMemUnmap)(at, chunk->bytes);
    DRIVER(cuMemRelease)(chunk->handle);
    chunk->handle = 0;
}
