/* The program's own memory where the driver takes its handle but maps it at no address of this process: multicast
 * objects, logical endpoints and sparse arrays. The handles of such objects are the driver's own. */
#include <stdlib.h>
#include <string.h>

#include "shim/agent/client_report.h"
#include "shim/base/driver.h"
#include "shim/gate/gate.h"
#include "shim/gate/streams.h"
#include "shim/mem/extent.h"
#include "shim/mem/extent_table.h"
#include "shim/mem/vmm_bind.h"
#include "shim/mem/vmm_handle.h"

/* The extent of a handle of ours, whose moves are held from now on; NULL: the handle is the driver's own, as of
 * imported memory. */
static struct extent *hold_extent(CUmemGenericAllocationHandle memory)
{
    LOCK_SCOPE(&extent_lock);
    const struct vmm_handle *vmm_handle = vmm_handle_find(memory);
    if (!vmm_handle) {
        return NULL;
    }
    extent_hold_moves(vmm_handle->extent);
    return vmm_handle->extent;
}

static void release_moves(struct extent *extent)
{
    LOCK_SCOPE(&extent_lock);
    extent_release_moves(extent);
}

/* What others write to stays: the agent was asked before, and hears if the driver refuses. */
static CUresult end_bind(struct mw_slot *slot, CUresult result)
{
    gate_leave(slot);
    client_pin_end(result == CUDA_SUCCESS);
    return result;
}

/* A GPU that has no multicast says so itself, and no program is pinned. */
static bool has_multicast(void)
{
    CUdevice ordinal = 0;
    int has = 0;
    DRIVER(cuCtxGetDevice)(&ordinal);
    DRIVER(cuDeviceGetAttribute)(&has, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, ordinal);
    return has != 0;
}

CUresult cuMulticastCreate(CUmemGenericAllocationHandle *team, const CUmulticastObjectProp *prop)
{
    bool asks = client_is_active() && has_multicast();
    CUresult result = asks ? client_pin_begin("cuMulticastCreate") : CUDA_SUCCESS;
    if (result != CUDA_SUCCESS) {
        return result;
    }
    struct mw_slot *slot = gate_enter();
    result = DRIVER(cuMulticastCreate)(team, prop);
    if (!asks && result == CUDA_SUCCESS) {
        client_report_pinned("cuMulticastCreate");
    }
    gate_leave(slot);
    if (asks) {
        client_pin_end(result == CUDA_SUCCESS);
    }
    return result;
}

static CUresult bind_memory(CUmemGenericAllocationHandle memory, const struct vmm_binding *binding,
                            const char *call)
{
    CUresult result = client_pin_begin(call);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    struct mw_slot *slot = gate_enter();
    struct extent *extent = hold_extent(memory);
    result = extent ? vmm_bind(extent, binding) : vmm_bind_foreign(memory, binding);
    if (extent) {
        release_moves(extent);
    }
    return end_bind(slot, result);
}

CUresult cuMulticastBindMem(CUmemGenericAllocationHandle team, size_t offset,
                            CUmemGenericAllocationHandle memory, size_t memory_offset, size_t bytes,
                            unsigned long long flags)
{
    struct vmm_binding binding = {.call = VMM_BIND_MULTICAST,
                                  .object = team,
                                  .offset = offset,
                                  .memory_offset = memory_offset,
                                  .bytes = bytes,
                                  .flags = flags};
    return bind_memory(memory, &binding, "cuMulticastBindMem");
}

CUresult cuMulticastBindMem_v2(CUmemGenericAllocationHandle team, CUdevice dev, size_t offset,
                               CUmemGenericAllocationHandle memory, size_t memory_offset,
                               size_t bytes, unsigned long long flags)
{
    struct vmm_binding binding = {.call = VMM_BIND_MULTICAST_V2,
                                  .device = dev,
                                  .object = team,
                                  .offset = offset,
                                  .memory_offset = memory_offset,
                                  .bytes = bytes,
                                  .flags = flags};
    return bind_memory(memory, &binding, "cuMulticastBindMem_v2");
}

CUresult cuLogicalEndpointBindMem(CUlogicalEndpointId endpoint, CUdevice dev, cuuint64_t offset,
                                  CUmemGenericAllocationHandle memory, cuuint64_t memory_offset,
                                  cuuint64_t bytes, unsigned long long flags)
{
    struct vmm_binding binding = {.call = VMM_BIND_ENDPOINT,
                                  .device = dev,
                                  .object = endpoint,
                                  .offset = offset,
                                  .memory_offset = memory_offset,
                                  .bytes = bytes,
                                  .flags = flags};
    return bind_memory(memory, &binding, "cuLogicalEndpointBindMem");
}

/* What an address is bound as. */
enum address_kind {
    ADDRESS_OURS,   /* one of cuMemMap, or of a pool */
    ADDRESS_DRIVER, /* not ours: the driver knows it */
    ADDRESS_WRONG,  /* of another call, or more than is there: the driver binds no such memory */
};

/* With extent_lock: the extent behind an address, and where it begins in there. */
static enum address_kind find_address(CUdeviceptr address, uint64_t bytes, struct extent **extent,
                                      uint64_t *offset)
{
    const struct vmm_mapping *mapping = vmm_mappings_find(address);
    struct extent *found = mapping ? mapping->of->extent : extent_table_find(address);
    if (!found || extent_is_managed(found)) {
        return ADDRESS_DRIVER;
    }
    *extent = found;
    *offset = address - (mapping ? mapping->base : found->base);
    uint64_t span = mapping ? mapping->bytes : found->span;
    return (mapping || found->use == EXTENT_OF_POOL) && bytes <= span - *offset ? ADDRESS_OURS
                                                                                : ADDRESS_WRONG;
}

static enum address_kind hold_address(CUdeviceptr address, uint64_t bytes, struct extent **extent,
                                      uint64_t *offset)
{
    LOCK_SCOPE(&extent_lock);
    enum address_kind kind = find_address(address, bytes, extent, offset);
    if (kind == ADDRESS_OURS) {
        extent_hold_moves(*extent);
    }
    return kind;
}

/* Several chunks are one piece for the program, and the driver binds only one of its own at a time. */
static CUresult bind_address(CUdeviceptr address, struct vmm_binding *binding, const char *call)
{
    struct extent *extent = NULL;
    CUresult result = client_pin_begin(call);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    struct mw_slot *slot = gate_enter();
    switch (hold_address(address, binding->bytes, &extent, &binding->memory_offset)) {
    case ADDRESS_OURS:
        result = vmm_bind(extent, binding);
        release_moves(extent);
        break;
    case ADDRESS_DRIVER:
        result =
            binding->call == VMM_BIND_MULTICAST
                ? DRIVER(cuMulticastBindAddr)(binding->object, binding->offset, address,
                                              binding->bytes, binding->flags)
                : DRIVER(cuMulticastBindAddr_v2)(binding->object, binding->device, binding->offset,
                                                 address, binding->bytes, binding->flags);
        break;
    default:
        result = CUDA_ERROR_INVALID_VALUE;
    }
    return end_bind(slot, result);
}

CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle team, size_t offset, CUdeviceptr ptr,
                             size_t bytes, unsigned long long flags)
{
    struct vmm_binding binding = {.call = VMM_BIND_MULTICAST,
                                  .object = team,
                                  .offset = offset,
                                  .bytes = bytes,
                                  .flags = flags};
    return bind_address(ptr, &binding, "cuMulticastBindAddr");
}

CUresult cuMulticastBindAddr_v2(CUmemGenericAllocationHandle team, CUdevice dev, size_t offset,
                                CUdeviceptr ptr, size_t bytes, unsigned long long flags)
{
    struct vmm_binding binding = {.call = VMM_BIND_MULTICAST_V2,
                                  .device = dev,
                                  .object = team,
                                  .offset = offset,
                                  .bytes = bytes,
                                  .flags = flags};
    return bind_address(ptr, &binding, "cuMulticastBindAddr_v2");
}

/* Unbinds what was bound as several chunks; false: the driver does it. */
static bool unbind_ours(bool endpoint, uint64_t object, CUdevice dev, uint64_t offset,
                        CUresult *result)
{
    LOCK_SCOPE(&extent_lock);
    return vmm_unbind(endpoint, object, dev, offset, result);
}

CUresult cuMulticastUnbind(CUmemGenericAllocationHandle team, CUdevice dev, size_t offset,
                           size_t bytes)
{
    CUresult result;
    struct mw_slot *slot = gate_enter();
    if (!unbind_ours(false, team, dev, offset, &result)) {
        result = DRIVER(cuMulticastUnbind)(team, dev, offset, bytes);
    }
    gate_leave(slot);
    return result;
}

CUresult cuLogicalEndpointUnbind(CUlogicalEndpointId endpoint, CUdevice dev, cuuint64_t offset,
                                 cuuint64_t bytes)
{
    CUresult result;
    struct mw_slot *slot = gate_enter();
    if (!unbind_ours(true, endpoint, dev, offset, &result)) {
        result = DRIVER(cuLogicalEndpointUnbind)(endpoint, dev, offset, bytes);
    }
    gate_leave(slot);
    return result;
}

/* With extent_lock: the driver's handle for one of ours. Memory for arrays is one chunk (vmm_handle_make);
 * without memory its context is broken, and our handle, which the driver does not know, stays. */
static CUmemGenericAllocationHandle real_handle(CUmemGenericAllocationHandle memory)
{
    const struct vmm_handle *vmm_handle = vmm_handle_find(memory);
    const struct extent *extent = vmm_handle ? vmm_handle->extent : NULL;
    return extent && extent->chunk_count == 1 && chunk_has_memory(&extent->chunks[0])
               ? extent->chunks[0].handle
               : memory;
}

typedef CUresult map_array_call(CUarrayMapInfo *list, unsigned count, CUstream stream);

/* The program's list stays as it is: the driver gets a copy. */
static CUresult map_arrays(map_array_call *call, const CUarrayMapInfo *list, unsigned count,
                           CUstream stream)
{
    CUarrayMapInfo *copy = malloc((size_t)count * sizeof(*copy));
    if (!copy) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    memcpy(copy, list, (size_t)count * sizeof(*copy));
    lock_take(&extent_lock);
    for (unsigned i = 0; i < count; i++) {
        copy[i].memHandle.memHandle = real_handle(copy[i].memHandle.memHandle);
    }
    CUresult result = call(copy, count, stream);
    lock_drop(&extent_lock);
    free(copy);
    return result;
}

static CUresult map_array_async(map_array_call *call, CUarrayMapInfo *list, unsigned count,
                                CUstream stream, CUstream noted)
{
    CUresult result = client_pin_begin("cuMemMapArrayAsync");
    if (result != CUDA_SUCCESS) {
        return result;
    }
    struct mw_slot *slot = gate_enter();
    result = list && count ? map_arrays(call, list, count, stream) : call(list, count, stream);
    streams_note(noted);
    return end_bind(slot, result);
}

CUresult cuMemMapArrayAsync(CUarrayMapInfo *list, unsigned count, CUstream stream)
{
    return map_array_async(DRIVER(cuMemMapArrayAsync), list, count, stream, stream);
}

CUresult cuMemMapArrayAsync_ptsz(CUarrayMapInfo *list, unsigned count, CUstream stream)
{
    return map_array_async(DRIVER(cuMemMapArrayAsync_ptsz), list, count, stream,
                           stream ? stream : CU_STREAM_PER_THREAD);
}
