/* The entry points that share pools and their memory between processes. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "simgpu/base/devices.h"
#include "simgpu/base/entry.h"
#include "simgpu/mem/address.h"
#include "simgpu/mem/chunk.h"
#include "simgpu/mem/pool.h"

#define POOL_MAGIC 0x6c6f6f707567736dull
#define MARK 0x706f6f6cu /* marks a pointer's data, so that no other token is taken for one */

struct pool_token {
    uint64_t magic, number;
    uint32_t gpu, pid;
};

struct pointer_token {
    struct sg_token token;
    uint64_t bytes;
    uint32_t pool, mark;
};
_Static_assert(sizeof(struct pointer_token) <= sizeof(CUmemPoolPtrExportData), "fits");

CUresult cuMemPoolExportToShareableHandle(void *out, CUmemoryPool handle,
                                          CUmemAllocationHandleType type, unsigned long long flags)
{
    SG_ENTER();
    CUmemoryPool pool = sg_pool(handle);
    if (!out || !pool || flags || pool->is_imported ||
        type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR || !(pool->props.handleTypes & type)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct pool_token token = {POOL_MAGIC, pool->number, pool->gpu, (uint32_t)getpid()};
    int file = (int)syscall(SYS_memfd_create, "simgpu-pool", 1u /* MFD_CLOEXEC */);
    if (file < 0 || write(file, &token, sizeof token) != (ssize_t)sizeof token) {
        if (file >= 0) {
            close(file);
        }
        return CUDA_ERROR_OPERATING_SYSTEM;
    }
    memcpy(out, &file, sizeof file);
    return CUDA_SUCCESS;
}

CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *out, void *handle,
                                            CUmemAllocationHandleType type,
                                            unsigned long long flags)
{
    struct pool_token token;
    SG_ENTER();
    if (!out || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR ||
        pread((int)(intptr_t)handle, &token, sizeof token, 0) != (ssize_t)sizeof token ||
        token.magic != POOL_MAGIC || token.gpu >= sg_state->machine.count) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .handleTypes = type,
                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, sg_ordinal_of(token.gpu)}};
    CUmemoryPool pool = sg_pool_new(token.gpu, &props);
    if (!pool) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    pool->is_imported = 1;
    pool->number = token.number;
    *out = pool;
    return CUDA_SUCCESS;
}

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *data, CUdeviceptr address)
{
    struct pointer_token token = {.mark = MARK};
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    SG_ENTER();
    if (!data) {
        return result;
    }
    sg_ranges_lock();
    struct sg_range *range = sg_ranges_find(address);
    if (range && range->kind == SG_RANGE_POOLED && range->piece && range->base == address &&
        range->pool->props.handleTypes) {
        result = sg_chunk_share(range->chunk, &token.token);
        token.token.delta = (uint32_t)(range->offset / 512);
        token.bytes = range->size;
        token.pool = (uint32_t)range->pool->number;
    }
    sg_ranges_unlock();
    if (!result) {
        memset(data, 0, sizeof *data);
        memcpy(data, &token, sizeof token);
    }
    return result;
}

CUresult cuMemPoolImportPointer(CUdeviceptr *out, CUmemoryPool handle, CUmemPoolPtrExportData *data)
{
    struct pointer_token token;
    struct sg_chunk *chunk;
    SG_ENTER();
    CUmemoryPool pool = sg_pool(handle);
    if (!out || !data || !pool || !pool->is_imported) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    memcpy(&token, data, sizeof token);
    if (token.mark != MARK || token.pool != (uint32_t)pool->number) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct sg_range *range = calloc(1, sizeof *range);
    if (!range) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult result = sg_chunk_adopt(&chunk, &token.token);
    if (result) {
        free(range);
        return result;
    }
    uint64_t offset = (uint64_t)token.token.delta * 512;
    uint64_t start = offset & ~(uint64_t)4095, end = (offset + token.bytes + 4095) & ~4095ull;
    uint64_t base = sg_addresses_alloc(end - start, 0, 0);
    result = base ? sg_chunk_map(chunk, base, end - start, start, PROT_READ | PROT_WRITE)
                  : CUDA_ERROR_OUT_OF_MEMORY;
    if (result) {
        if (base) {
            sg_addresses_free(base, end - start);
        }
        sg_chunk_unref(chunk);
        free(range);
        return result;
    }
    *range = (struct sg_range){.base = base + (offset - start),
                               .size = token.bytes,
                               .span = end - start,
                               .kind = SG_RANGE_POOLED,
                               .gpu = pool->gpu,
                               .chunk = chunk,
                               .offset = start,
                               .pool = pool};
    sg_ranges_lock();
    sg_ranges_add(range);
    sg_ranges_unlock();
    *out = range->base;
    return CUDA_SUCCESS;
}
