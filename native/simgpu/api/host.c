/* Pinned host memory. The pages are neither locked nor touched: memory is pinned if the map of ranges says
 * so. */
#include <stdlib.h>
#include <sys/mman.h>

#include "simgpu/base/devices.h"
#include "simgpu/context/context_stack.h"
#include "simgpu/mem/address.h"
#include "simgpu/shared/clock.h"
#include "simgpu/shared/sleep.h"
#include "simgpu/stream/capture_rules.h"
#include "simgpu/stream/stream.h"

#define PAGE 4096u

static CUresult alloc(void **out, size_t bytes, unsigned flags)
{
    SG_CONTEXT(context);
    if (!out || bytes == 0 || flags & ~7u) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    SG_TRY(sg_capture_forbids());
    size_t span = (bytes + PAGE - 1) & ~(size_t)(PAGE - 1);
    void *at = mmap(NULL, span, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
                    -1, 0);
    struct sg_range *range = calloc(1, sizeof *range);
    if (at == MAP_FAILED || !range) {
        if (at != MAP_FAILED) {
            munmap(at, span);
        }
        free(range);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *range = (struct sg_range){.base = (uint64_t)(uintptr_t)at,
                               .size = bytes,
                               .span = span,
                               .kind = SG_RANGE_HOST,
                               .gpu = context->gpu,
                               .context = context,
                               .flags = flags};
    sg_ranges_lock();
    sg_ranges_add(range);
    sg_ranges_unlock();
    sg_pay(sg_duration_ns(bytes, sg_profile_of(context->gpu)->register_bytes_per_s));
    *out = at;
    return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void **out, size_t bytes, unsigned int flags)
{
    return alloc(out, bytes, flags);
}

CUresult cuMemAllocHost_v2(void **out, size_t bytes) { return alloc(out, bytes, 0); }

/* Removes the range of this kind that begins at the address from the map. */
static struct sg_range *take_out(void *address, enum sg_range_kind kind)
{
    sg_ranges_lock();
    struct sg_range *range = sg_ranges_find((uint64_t)(uintptr_t)address);
    if (range && range->kind == kind && range->base == (uint64_t)(uintptr_t)address) {
        sg_ranges_remove(range);
    } else {
        range = NULL;
    }
    sg_ranges_unlock();
    return range;
}

CUresult cuMemFreeHost(void *address)
{
    SG_CONTEXT(context);
    if (!address) {
        return CUDA_SUCCESS;
    }
    SG_TRY(sg_capture_forbids());
    SG_TRY(sg_context_drain(context));
    struct sg_range *range = take_out(address, SG_RANGE_HOST);
    if (!range) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    munmap(address, range->span);
    free(range);
    return CUDA_SUCCESS;
}

CUresult cuMemHostRegister_v2(void *address, size_t bytes, unsigned int flags)
{
    SG_CONTEXT(context);
    uint64_t base = (uint64_t)(uintptr_t)address;
    if (!address || !bytes || flags & ~15u || sg_address_is_device(base)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    SG_TRY(sg_capture_forbids());
    struct sg_range *range = calloc(1, sizeof *range);
    if (!range) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *range = (struct sg_range){.base = base,
                               .size = bytes,
                               .span = bytes,
                               .kind = SG_RANGE_REGISTERED,
                               .gpu = context->gpu,
                               .context = context,
                               .flags = flags};
    sg_ranges_lock();
    int taken = sg_ranges_find(base) || sg_ranges_find(base + bytes - 1);
    if (!taken) {
        sg_ranges_add(range);
    }
    sg_ranges_unlock();
    if (taken) {
        free(range);
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    }
    sg_pay(sg_duration_ns(bytes, sg_profile_of(context->gpu)->register_bytes_per_s));
    return CUDA_SUCCESS;
}

CUresult cuMemHostRegister(void *address, size_t bytes, unsigned int flags)
{
    return cuMemHostRegister_v2(address, bytes, flags);
}

CUresult cuMemHostUnregister(void *address)
{
    SG_CONTEXT(context);
    (void)context;
    struct sg_range *range = take_out(address, SG_RANGE_REGISTERED);
    if (!range) {
        return address ? CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED : CUDA_ERROR_INVALID_VALUE;
    }
    free(range);
    return CUDA_SUCCESS;
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *out, void *address, unsigned int flags)
{
    SG_CONTEXT(context);
    (void)context;
    if (!out || flags || !sg_is_pinned((uint64_t)(uintptr_t)address, 1)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *out = (CUdeviceptr)(uintptr_t)address;
    return CUDA_SUCCESS;
}

CUresult cuMemHostGetFlags(unsigned int *flags, void *address)
{
    SG_CONTEXT(context);
    (void)context;
    CUresult result = CUDA_ERROR_INVALID_VALUE;
    sg_ranges_lock();
    struct sg_range *range = sg_ranges_find((uint64_t)(uintptr_t)address);
    if (flags && range && range->kind == SG_RANGE_HOST) {
        *flags = range->flags | CU_MEMHOSTALLOC_DEVICEMAP;
        result = CUDA_SUCCESS;
    }
    sg_ranges_unlock();
    return result;
}
