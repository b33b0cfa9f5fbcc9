/* Allocation, as programs see it. The walk from here to the driver is in native/shim/README.md. */
#include "shim/agent/client_report.h"
#include "shim/base/driver.h"
#include "shim/gate/gate.h"
#include "shim/gate/stream_capture.h"
#include "shim/mem/address_info.h"
#include "shim/mem/alloc.h"
#include "shim/mem/device.h"
#include "shim/mem/device_contexts.h"
#include "shim/mem/release.h"

#define PITCH 512u /* rows start at a multiple of this, as with the driver */

CUresult cuMemAlloc_v2(CUdeviceptr *pointer, size_t bytes)
{
    if (!client_is_active()) {
        return DRIVER(cuMemAlloc_v2)(pointer, bytes);
    }
    CUresult refused = stream_capture_check();
    return refused ? refused : alloc_device(pointer, bytes);
}

CUresult cuMemAllocPitch_v2(CUdeviceptr *pointer, size_t *pitch, size_t width, size_t height,
                            unsigned int element)
{
    if (!client_is_active()) {
        return DRIVER(cuMemAllocPitch_v2)(pointer, pitch, width, height, element);
    }
    CUresult result = device_check();
    if (result != CUDA_SUCCESS) {
        return result;
    }
    if (!pitch || !width || !height || (element != 4 && element != 8 && element != 16)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    size_t row = (width + PITCH - 1) / PITCH * PITCH;
    size_t bytes;
    if (row < width || __builtin_mul_overflow(row, height, &bytes)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    result = stream_capture_check();
    if (result == CUDA_SUCCESS) {
        result = alloc_device(pointer, bytes);
    }
    if (result == CUDA_SUCCESS) {
        *pitch = row;
    }
    return result;
}

CUresult cuMemAllocManaged(CUdeviceptr *pointer, size_t bytes, unsigned int flags)
{
    if (!client_is_active()) {
        return DRIVER(cuMemAllocManaged)(pointer, bytes, flags);
    }
    CUresult refused = stream_capture_check();
    return refused ? refused : alloc_managed(pointer, bytes, flags);
}

CUresult cuMemFree_v2(CUdeviceptr pointer)
{
    CUresult result = pointer && client_is_active() ? stream_capture_check() : CUDA_SUCCESS;
    if (result != CUDA_SUCCESS || (client_is_active() && release_address(pointer, &result))) {
        return result;
    }
    return DRIVER(cuMemFree_v2)(pointer);
}

CUresult cuMemGetInfo_v2(size_t *available, size_t *total)
{
    CUresult result = DRIVER(cuMemGetInfo_v2)(available, total);
    struct device *device;
    if (result != CUDA_SUCCESS || !client_is_active() || device_current(&device) != CUDA_SUCCESS) {
        return result;
    }
    uint64_t used = alloc_bytes(device) + device_limit_beside(device);
    uint64_t limit = device_limit(device);
    *total = limit;
    *available = used < limit ? limit - used : 0; /* none where it was lowered below the use */
    return CUDA_SUCCESS;
}

static unsigned int in_32_bits(size_t bytes)
{
    return bytes > UINT32_MAX ? UINT32_MAX : (unsigned int)bytes;
}

CUresult cuMemGetInfo(unsigned int *available, unsigned int *total)
{
    size_t left;
    size_t all;
    CUresult result = cuMemGetInfo_v2(&left, &all);
    if (result != CUDA_SUCCESS || !available || !total) {
        return result != CUDA_SUCCESS ? result : CUDA_ERROR_INVALID_VALUE;
    }
    *available = in_32_bits(left);
    *total = in_32_bits(all);
    return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr pointer)
{
    if (client_is_active() && address_info_range(pointer, base, bytes)) {
        return device_check();
    }
    return DRIVER(cuMemGetAddressRange_v2)(
        base, bytes, client_is_active() ? address_info_as_seen(pointer) : pointer);
}
