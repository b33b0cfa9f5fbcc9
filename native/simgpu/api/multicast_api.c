/* The entry points of multicast objects. */
#include "simgpu/base/devices.h"
#include "simgpu/base/entry.h"
#include "simgpu/base/handles.h"
#include "simgpu/mem/address.h"
#include "simgpu/mem/allocation.h"
#include "simgpu/mem/chunk.h"
#include "simgpu/mem/multicast.h"

/* NVSwitch can do it from Hopper on. */
static int can_multicast(unsigned gpu) { return sg_profile_of(gpu)->cc_major >= 9; }

static unsigned capable_devices(void)
{
    unsigned count = 0;
    for (unsigned i = 0; i < sg_device_count(); i++) {
        count += can_multicast(sg_device_of((CUdevice)i)) != 0;
    }
    return count;
}

static CUresult check_prop(const CUmulticastObjectProp *prop)
{
    if (!prop || !prop->numDevices || !prop->size || prop->flags) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!capable_devices() ||
        prop->handleTypes & ~(unsigned long long)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    return prop->numDevices <= sg_state->machine.count ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMulticastGetGranularity(size_t *granularity, const CUmulticastObjectProp *prop,
                                   CUmulticastGranularity_flags option)
{
    SG_ENTER();
    if (!granularity || (option != CU_MULTICAST_GRANULARITY_MINIMUM &&
                         option != CU_MULTICAST_GRANULARITY_RECOMMENDED)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    SG_TRY(check_prop(prop));
    *granularity = SG_BLOCK_BYTES;
    return CUDA_SUCCESS;
}

CUresult cuMulticastCreate(CUmemGenericAllocationHandle *team, const CUmulticastObjectProp *prop)
{
    struct sg_multicast *made;
    SG_ENTER();
    if (!team) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    SG_TRY(check_prop(prop));
    if (!sg_is_granular(prop->size)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    SG_TRY(sg_multicast_create(&made, prop));
    sg_allocations_lock();
    *team = sg_multicast_give_handle(made);
    sg_allocations_unlock();
    return CUDA_SUCCESS;
}

/* The object of a handle, with a reference of the caller's. */
static CUresult hold(struct sg_multicast **object, CUmemGenericAllocationHandle team)
{
    sg_allocations_lock();
    *object = sg_multicast_of(team);
    if (*object) {
        sg_multicast_ref(*object);
    }
    sg_allocations_unlock();
    return *object ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle team, CUdevice dev)
{
    struct sg_multicast *object;
    SG_ENTER();
    if (!sg_device_is(dev)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    if (!can_multicast(sg_device_of(dev))) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    SG_TRY(hold(&object, team));
    CUresult result = sg_multicast_add_device(object, sg_device_of(dev));
    sg_multicast_unref(object);
    return result;
}

/* The chunk of a handle, or the one that is mapped at an address, with a reference of the caller's; NULL: there is none. */
static struct sg_chunk *hold_chunk(CUmemGenericAllocationHandle memory)
{
    sg_allocations_lock();
    struct sg_chunk *chunk = sg_allocation(memory);
    if (chunk) {
        sg_chunk_ref(chunk);
    }
    sg_allocations_unlock();
    return chunk;
}

static struct sg_chunk *hold_chunk_at(CUdeviceptr address, uint64_t bytes, uint64_t *chunk_offset)
{
    struct sg_chunk *chunk = NULL;
    sg_ranges_lock();
    const struct sg_range *range = sg_ranges_find_mapped(address);
    if (range && range->chunk && bytes <= range->size - (address - range->base)) {
        chunk = range->chunk;
        *chunk_offset = range->offset + (address - range->base);
        sg_chunk_ref(chunk);
    }
    sg_ranges_unlock();
    return chunk;
}

/* Ends the caller's reference to the chunk. `dev` is NULL where the call names no device. */
static CUresult bind(CUmemGenericAllocationHandle team, const CUdevice *dev,
                     const struct sg_multicast_part *part, unsigned long long flags)
{
    struct sg_multicast *object = NULL;
    CUresult result = part->chunk && !flags ? hold(&object, team) : CUDA_ERROR_INVALID_VALUE;
    if (!result && dev && (!sg_device_is(*dev) || sg_device_of(*dev) != part->chunk->gpu)) {
        result = CUDA_ERROR_INVALID_VALUE;
    }
    if (!result) {
        sg_multicast_await_devices(object);
        result = sg_multicast_bind(object, part);
    }
    if (object) {
        sg_multicast_unref(object);
    }
    if (part->chunk) {
        sg_chunk_unref(part->chunk);
    }
    return result;
}

static CUresult bind_memory(CUmemGenericAllocationHandle team, const CUdevice *dev, size_t offset,
                            CUmemGenericAllocationHandle memory, size_t memory_offset, size_t bytes,
                            unsigned long long flags)
{
    const struct sg_multicast_part part = {offset, bytes, hold_chunk(memory), memory_offset};
    return bind(team, dev, &part, flags);
}

static CUresult bind_address(CUmemGenericAllocationHandle team, const CUdevice *dev, size_t offset,
                             CUdeviceptr ptr, size_t bytes, unsigned long long flags)
{
    struct sg_multicast_part part = {.offset = offset, .bytes = bytes};
    part.chunk = hold_chunk_at(ptr, bytes, &part.chunk_offset);
    return bind(team, dev, &part, flags);
}

CUresult cuMulticastBindMem(CUmemGenericAllocationHandle team, size_t offset,
                            CUmemGenericAllocationHandle memory, size_t memory_offset, size_t bytes,
                            unsigned long long flags)
{
    SG_ENTER();
    return bind_memory(team, NULL, offset, memory, memory_offset, bytes, flags);
}

CUresult cuMulticastBindMem_v2(CUmemGenericAllocationHandle team, CUdevice dev, size_t offset,
                               CUmemGenericAllocationHandle memory, size_t memory_offset,
                               size_t bytes, unsigned long long flags)
{
    SG_ENTER();
    return bind_memory(team, &dev, offset, memory, memory_offset, bytes, flags);
}

CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle team, size_t offset, CUdeviceptr ptr,
                             size_t bytes, unsigned long long flags)
{
    SG_ENTER();
    return bind_address(team, NULL, offset, ptr, bytes, flags);
}

CUresult cuMulticastBindAddr_v2(CUmemGenericAllocationHandle team, CUdevice dev, size_t offset,
                                CUdeviceptr ptr, size_t bytes, unsigned long long flags)
{
    SG_ENTER();
    return bind_address(team, &dev, offset, ptr, bytes, flags);
}

CUresult cuMulticastUnbind(CUmemGenericAllocationHandle team, CUdevice dev, size_t offset,
                           size_t bytes)
{
    struct sg_multicast *object;
    SG_ENTER();
    if (!sg_device_is(dev)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    SG_TRY(hold(&object, team));
    CUresult result = sg_multicast_unbind(object, sg_device_of(dev), offset, bytes);
    sg_multicast_unref(object);
    return result;
}
