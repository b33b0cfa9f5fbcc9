#include "shim/mem/vmm_chunk.h"

#include "shim/base/driver.h"
#include "shim/mem/extent.h"
#include "shim/mem/vmm_mappings.h"

uint64_t vmm_chunk_offset(const struct extent *extent, uint32_t chunk)
{
    return (uint64_t)chunk * extent->chunks[0].bytes;
}

uint64_t vmm_chunk_part(const struct vmm_mapping *mapping, const struct extent *extent,
                        uint32_t chunk)
{
    uint64_t offset = vmm_chunk_offset(extent, chunk);
    uint64_t beyond = mapping->bytes > offset ? mapping->bytes - offset : 0;
    return beyond < extent->chunks[chunk].bytes ? beyond : extent->chunks[chunk].bytes;
}

CUdeviceptr vmm_chunk_address(const struct extent *extent, uint32_t chunk)
{
    const struct vmm_handle *vmm_handle = extent->vmm_handle;
    CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, extent->device->ordinal};
    if (extent->chunks[chunk].staging_mapped) {
        return vmm_handle->staging + vmm_chunk_offset(extent, chunk);
    }
    for (const struct vmm_mapping *m = vmm_handle->mappings; m; m = m->next_of) {
        if (vmm_chunk_part(m, extent, chunk) == extent->chunks[chunk].bytes &&
            vmm_mapping_access(m, &here) == CU_MEM_ACCESS_FLAGS_PROT_READWRITE) {
            return m->base + vmm_chunk_offset(extent, chunk);
        }
    }
    return 0;
}

CUresult vmm_chunk_ensure_mapped(struct extent *extent, uint32_t chunk)
{
    struct vmm_handle *vmm_handle = extent->vmm_handle;
    struct chunk *wanted = &extent->chunks[chunk];
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, extent->device->ordinal},
                              CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUresult result = CUDA_SUCCESS;
    if (vmm_chunk_address(extent, chunk)) {
        return CUDA_SUCCESS;
    }
    if (!vmm_handle->staging) {
        result = DRIVER(cuMemAddressReserve)(&vmm_handle->staging, extent->span, 0, 0, 0);
        if (result != CUDA_SUCCESS) {
            return result;
        }
    }
    CUdeviceptr at = vmm_handle->staging + vmm_chunk_offset(extent, chunk);
    result = DRIVER(cuMemMap)(at, wanted->bytes, 0, wanted->handle, 0);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    result = DRIVER(cuMemSetAccess)(at, wanted->bytes, &access, 1);
    if (result != CUDA_SUCCESS) {
        DRIVER(cuMemUnmap)(at, wanted->bytes);
        return result;
    }
    wanted->staging_mapped = true;
    return CUDA_SUCCESS;
}

/* At one of the program's addresses, with the access that it allowed there. */
static CUresult show(const struct vmm_mapping *mapping, const struct extent *extent, uint32_t chunk)
{
    CUdeviceptr at = mapping->base + vmm_chunk_offset(extent, chunk);
    uint64_t part = vmm_chunk_part(mapping, extent, chunk);
    CUresult result = DRIVER(cuMemMap)(at, part, 0, extent->chunks[chunk].handle, 0);
    if (result != CUDA_SUCCESS || !mapping->access_count) {
        return result;
    }
    result = DRIVER(cuMemSetAccess)(at, part, mapping->access, mapping->access_count);
    if (result != CUDA_SUCCESS) {
        DRIVER(cuMemUnmap)(at, part);
    }
    return result;
}

void vmm_chunk_hide(const struct vmm_mapping *mapping, const struct extent *extent, uint32_t chunk)
{
    uint64_t part = vmm_chunk_part(mapping, extent, chunk);
    if (part) {
        DRIVER(cuMemUnmap)(mapping->base + vmm_chunk_offset(extent, chunk), part);
    }
}

CUresult vmm_chunk_map(struct extent *extent, uint32_t chunk)
{
    const struct vmm_handle *vmm_handle = extent->vmm_handle;
    struct chunk *wanted = &extent->chunks[chunk];
    CUresult result = DRIVER(cuMemCreate)(&wanted->handle, wanted->bytes, &vmm_handle->prop, 0);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    for (const struct vmm_mapping *m = vmm_handle->mappings; m; m = m->next_of) {
        if (!vmm_chunk_part(m, extent, chunk)) {
            continue;
        }
        result = show(m, extent, chunk);
        if (result != CUDA_SUCCESS) {
            for (const struct vmm_mapping *done = vmm_handle->mappings; done != m;
                 done = done->next_of) {
                vmm_chunk_hide(done, extent, chunk);
            }
            DRIVER(cuMemRelease)(wanted->handle);
            wanted->handle = 0;
            return result;
        }
    }
    return CUDA_SUCCESS;
}

void vmm_chunk_unmap(struct extent *extent, uint32_t chunk)
{
    const struct vmm_handle *vmm_handle = extent->vmm_handle;
    struct chunk *wanted = &extent->chunks[chunk];
    for (const struct vmm_mapping *m = vmm_handle->mappings; m; m = m->next_of) {
        vmm_chunk_hide(m, extent, chunk);
    }
    if (wanted->staging_mapped) {
        DRIVER(cuMemUnmap)(vmm_handle->staging + vmm_chunk_offset(extent, chunk), wanted->bytes);
        wanted->staging_mapped = false;
    }
    DRIVER(cuMemRelease)(wanted->handle);
    wanted->handle = 0;
}
