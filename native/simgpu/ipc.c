/* Legacy sharing of cuMemAlloc's memory between processes. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "simgpu/address.h"
#include "simgpu/chunk.h"
#include "simgpu/context.h"

_Static_assert(sizeof(struct sg_token) <= CU_IPC_HANDLE_SIZE, "a token fits into a handle");

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address)
{
    struct sg_token token;
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    SG_CONTEXT(context);
    (void)context;
    sg_map_lock();
    struct sg_range *range = sg_map_find(address);
    if (handle && range &&
        range->kind == SG_ALLOCATED) { /* memory of cuMemMap is refused, as by the real driver */
        result = sg_chunk_share(range->chunk, &token);
        token.delta = (uint32_t)range->offset;
    }
    sg_map_unlock();
    if (!result) {
        memset(handle, 0, sizeof *handle);
        memcpy(handle, &token, sizeof token);
    }
    return result;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *out, CUipcMemHandle handle, unsigned int flags)
{
    struct sg_token token;
    struct sg_chunk *chunk;
    SG_CONTEXT(context);
    if (!out || flags & ~(unsigned)1) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    memcpy(&token, &handle, sizeof token);
    struct sg_range *range = calloc(1, sizeof *range);
    if (!range) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult result = sg_chunk_adopt(&chunk, &token);
    if (result) {
        free(range);
        return result == CUDA_ERROR_INVALID_VALUE ? CUDA_ERROR_MAP_FAILED : result;
    }
    uint64_t base = sg_addresses_take(chunk->bytes, 0, 0);
    result = base ? sg_chunk_map(chunk, base, chunk->bytes, 0, PROT_READ | PROT_WRITE)
                  : CUDA_ERROR_OUT_OF_MEMORY;
    if (result) {
        if (base) {
            sg_addresses_give(base, chunk->bytes);
        }
        sg_chunk_unref(chunk);
        free(range);
        return result;
    }
    *range = (struct sg_range){.base = base,
                               .size = chunk->bytes,
                               .span = chunk->bytes,
                               .kind = SG_IMPORTED,
                               .gpu = chunk->gpu,
                               .context = context,
                               .chunk = chunk};
    sg_map_lock();
    sg_map_add(range);
    sg_map_unlock();
    *out = base + token.delta;
    return CUDA_SUCCESS;
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *out, CUipcMemHandle handle, unsigned int flags)
{
    return cuIpcOpenMemHandle_v2(out, handle, flags);
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address)
{
    SG_CONTEXT(context);
    SG_TRY(sg_context_drain(context));
    sg_map_lock();
    struct sg_range *range = sg_map_find(address);
    if (range && range->kind == SG_IMPORTED) {
        sg_map_remove(range);
    } else {
        range = NULL;
    }
    sg_map_unlock();
    if (!range) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    sg_address_clear(range->base, range->span);
    sg_addresses_give(range->base, range->span);
    sg_chunk_unref(range->chunk);
    free(range);
    return CUDA_SUCCESS;
}

CUresult cuIpcGetEventHandle(CUipcEventHandle *handle, CUevent event)
{
    SG_ENTER();
    (void)handle, (void)event;
    return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult cuIpcOpenEventHandle(CUevent *event, CUipcEventHandle handle)
{
    SG_ENTER();
    (void)handle, (void)event;
    return CUDA_ERROR_NOT_SUPPORTED;
}
