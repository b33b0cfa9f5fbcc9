/* CUDA IPC: other processes open memory of cuMemAlloc. */
#include "simgpu/api/ipc.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "simgpu/context/context_stack.h"
#include "simgpu/mem/address.h"
#include "simgpu/mem/chunk.h"
#include "simgpu/stream/stream.h"

_Static_assert(sizeof(struct sg_token) <= CU_IPC_HANDLE_SIZE, "a token fits into a handle");

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr address)
{
    struct sg_token token;
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    SG_CONTEXT(context);
    (void)context;
    sg_ranges_lock();
    struct sg_range *range = sg_ranges_find(address);
    if (handle && range &&
        range->kind ==
            SG_RANGE_ALLOCATED) { /* memory of cuMemMap is refused, as NVIDIA's driver does */
        result = sg_chunk_share(range->chunk, &token);
        token.delta = (uint32_t)range->offset;
    }
    sg_ranges_unlock();
    if (!result) {
        memset(handle, 0, sizeof *handle);
        memcpy(handle, &token, sizeof token);
    }
    return result;
}

/* Memory of another process that this one has open. */
struct import {
    struct import *next;
    struct sg_token token;
    struct sg_range *range;
    uint64_t pointer;
    unsigned opens;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct import *imports;

static CUresult map(struct import *import, CUcontext context)
{
    struct sg_chunk *chunk;
    CUresult result = sg_chunk_adopt(&chunk, &import->token);
    if (result) {
        return result;
    }
    uint64_t base = sg_addresses_alloc(chunk->bytes, 0, 0);
    result = base ? sg_chunk_map(chunk, base, chunk->bytes, 0, PROT_READ | PROT_WRITE)
                  : CUDA_ERROR_OUT_OF_MEMORY;
    if (result) {
        if (base) {
            sg_addresses_free(base, chunk->bytes);
        }
        sg_chunk_unref(chunk);
        return result;
    }
    *import->range = (struct sg_range){.base = base,
                                       .size = chunk->bytes,
                                       .span = chunk->bytes,
                                       .kind = SG_RANGE_IMPORTED,
                                       .gpu = chunk->gpu,
                                       .context = context,
                                       .chunk = chunk};
    sg_ranges_lock();
    sg_ranges_add(import->range);
    sg_ranges_unlock();
    import->pointer = base + import->token.delta;
    return CUDA_SUCCESS;
}

static void unmap(struct import *import)
{
    sg_ranges_lock();
    sg_ranges_remove(import->range);
    sg_ranges_unlock();
    sg_address_clear(import->range->base, import->range->span);
    sg_addresses_free(import->range->base, import->range->span);
    sg_chunk_unref(import->range->chunk);
    free(import->range);
    free(import);
}

/* The caller holds the lock. Only one context of a device may have it open; it gets the same address again. */
static CUresult open_again(CUdeviceptr *out, const struct sg_token *token, CUcontext context)
{
    for (struct import *import = imports; import; import = import->next) {
        if (memcmp(&import->token, token, sizeof *token) != 0) {
            continue;
        }
        if (import->range->context == context) {
            import->opens++;
            *out = import->pointer;
            return CUDA_SUCCESS;
        }
        if (import->range->context->gpu == context->gpu) {
            return CUDA_ERROR_ALREADY_MAPPED;
        }
    }
    return CUDA_ERROR_NOT_FOUND;
}

static CUresult open_new(CUdeviceptr *out, const struct sg_token *token, CUcontext context)
{
    struct import *import = calloc(1, sizeof *import);
    struct sg_range *range = calloc(1, sizeof *range);
    CUresult result = CUDA_ERROR_OUT_OF_MEMORY;
    if (import && range) {
        *import = (struct import){.token = *token, .range = range, .opens = 1, .next = imports};
        result = map(import, context);
    }
    if (result) {
        free(range);
        free(import);
        return result;
    }
    imports = import;
    *out = import->pointer;
    return CUDA_SUCCESS;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *out, CUipcMemHandle handle, unsigned int flags)
{
    struct sg_token token;
    struct sg_chunk *own;
    SG_CONTEXT(context);
    if (!out || flags & ~(unsigned)CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    memcpy(&token, &handle, sizeof token);
    if (token.pid == (uint32_t)getpid()) { /* a process cannot open its own handle */
        SG_TRY(sg_chunk_adopt(&own, &token));
        sg_chunk_unref(own);
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    pthread_mutex_lock(&lock);
    CUresult result = open_again(out, &token, context);
    if (result == CUDA_ERROR_NOT_FOUND) {
        result = open_new(out, &token, context);
    }
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *out, CUipcMemHandle handle, unsigned int flags)
{
    return cuIpcOpenMemHandle_v2(out, handle, flags);
}

/* Closes the import at a pointer. Returns it when it was closed for the last time; *found says whether
 * there is one. */
static struct import *take_out(CUdeviceptr pointer, int *found)
{
    struct import *gone = NULL;
    pthread_mutex_lock(&lock);
    struct import **at = &imports;
    while (*at && (*at)->pointer != pointer) {
        at = &(*at)->next;
    }
    *found = *at != NULL;
    if (*at && --(*at)->opens == 0) {
        gone = *at;
        *at = gone->next;
    }
    pthread_mutex_unlock(&lock);
    return gone;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address)
{
    int found;
    SG_CONTEXT(context);
    SG_TRY(sg_context_drain(context));
    struct import *gone = take_out(address, &found);
    if (!gone) {
        return found ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
    }
    unmap(gone);
    return CUDA_SUCCESS;
}

void sg_ipc_close_all(CUcontext context)
{
    pthread_mutex_lock(&lock);
    for (struct import **at = &imports; *at;) {
        struct import *import = *at;
        if (import->range->context == context) {
            *at = import->next;
            unmap(import);
        } else {
            at = &import->next;
        }
    }
    pthread_mutex_unlock(&lock);
}
