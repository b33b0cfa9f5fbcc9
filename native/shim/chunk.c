#include "shim/chunk.h"

#include "shim/real.h"

/* Exportable from the start: the handle type of a chunk cannot be changed later. */
static CUmemAllocationHandleType exportable(CUdevice device)
{
    int supported = 0;
    REAL(cuDeviceGetAttribute)(
        &supported, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, device);
    return supported ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : CU_MEM_HANDLE_TYPE_NONE;
}

CUresult chunk_map(struct chunk *chunk, CUdeviceptr at, CUdevice device)
{
    CUmemAllocationProp prop = {
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .requestedHandleTypes = exportable(device),
        .location = {CU_MEM_LOCATION_TYPE_DEVICE, device},
    };
    CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUresult result = REAL(cuMemCreate)(&chunk->handle, chunk->bytes, &prop, 0);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    result = REAL(cuMemMap)(at, chunk->bytes, 0, chunk->handle, 0);
    if (result != CUDA_SUCCESS) {
        REAL(cuMemRelease)(chunk->handle);
        return result;
    }
    result = REAL(cuMemSetAccess)(at, chunk->bytes, &access, 1);
    if (result != CUDA_SUCCESS) {
        chunk_unmap(chunk, at);
        return result;
    }
    chunk->present = true;
    return CUDA_SUCCESS;
}

void chunk_unmap(struct chunk *chunk, CUdeviceptr at)
{
    REAL(cuMemUnmap)(at, chunk->bytes);
    REAL(cuMemRelease)(chunk->handle);
    chunk->handle = 0;
    chunk->present = false;
}
