/* The entry points about managed memory. */
#include "simgpu/base/devices.h"
#include "simgpu/capture/submit.h"
#include "simgpu/context/context_stack.h"
#include "simgpu/exec/stream_exec.h"
#include "simgpu/mem/address.h"
#include "simgpu/mem/managed.h"
#include "simgpu/stream/capture_rules.h"
#include "simgpu/stream/op.h"
#include "simgpu/stream/stream.h"

CUresult cuMemAllocManaged(CUdeviceptr *out, size_t bytes, unsigned int flags)
{
    SG_CONTEXT(context);
    if (!out || !bytes || (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    SG_TRY(sg_capture_forbids());
    return sg_managed_alloc(context, out, bytes);
}

static int is_managed(CUdeviceptr address, size_t bytes)
{
    sg_ranges_lock();
    struct sg_range *range = sg_ranges_find(address);
    int is = range && range->kind == SG_RANGE_MANAGED && bytes &&
             bytes <= range->size - (address - range->base);
    sg_ranges_unlock();
    return is;
}

static CUresult prefetch(CUdeviceptr address, size_t bytes, int gpu, CUstream handle)
{
    CUstream stream;
    SG_TRY(sg_stream_of(handle, &stream));
    if (!is_managed(address, bytes)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct sg_op *op = sg_op_new(&sg_kind_prefetch);
    op->prefetch.address = address;
    op->prefetch.bytes = bytes;
    op->prefetch.gpu = gpu;
    return sg_submit(stream, op);
}

CUresult cuMemPrefetchAsync(CUdeviceptr address, size_t bytes, CUdevice device, CUstream stream)
{
    if (device != CU_DEVICE_CPU && !sg_device_is(device)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    return prefetch(address, bytes, device == CU_DEVICE_CPU ? -1 : (int)sg_device_of(device),
                    stream);
}

CUresult cuMemPrefetchAsync_v2(CUdeviceptr address, size_t bytes, CUmemLocation location,
                               unsigned int flags, CUstream stream)
{
    if (flags) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return cuMemPrefetchAsync(
        address, bytes, location.type == CU_MEM_LOCATION_TYPE_DEVICE ? location.id : CU_DEVICE_CPU,
        stream);
}

/* Advice is checked and ignored. */
CUresult cuMemAdvise(CUdeviceptr address, size_t bytes, CUmem_advise advice, CUdevice device)
{
    SG_ENTER();
    (void)device;
    if (advice < CU_MEM_ADVISE_SET_READ_MOSTLY || advice > CU_MEM_ADVISE_UNSET_ACCESSED_BY) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    return is_managed(address, bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemAdvise_v2(CUdeviceptr address, size_t bytes, CUmem_advise advice,
                        CUmemLocation location)
{
    return cuMemAdvise(address, bytes, advice, location.id);
}

CUresult cuStreamAttachMemAsync(CUstream handle, CUdeviceptr address, size_t bytes,
                                unsigned int flags)
{
    CUstream stream;
    (void)bytes, (void)flags;
    SG_TRY(sg_stream_of(handle, &stream));
    return is_managed(address, 1) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
