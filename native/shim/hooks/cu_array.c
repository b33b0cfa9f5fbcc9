/* Arrays. The driver lays out their memory as it likes, so it stays where it is. */
#include "shim/agent/client_report.h"
#include "shim/base/driver.h"
#include "shim/gate/gate.h"
#include "shim/mem/device_contexts.h"
#include "shim/mem/oom_retry.h"
#include "shim/mem/unevictable.h"

/* The largest size of an element; formats of several planes or of blocks take less. */
static uint64_t element_bytes(CUarray_format format, unsigned channels)
{
    switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        return channels;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return 2ull * channels;
    default:
        return 4ull * channels;
    }
}

/* The driver does not tell the size. Its layout takes at least whole pages and rows. */
static uint64_t array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *form, unsigned levels)
{
    uint64_t rows = form->Height ? form->Height : 1;
    uint64_t layers = form->Depth ? form->Depth : 1;
    uint64_t bytes;
    if (__builtin_mul_overflow(form->Width * element_bytes(form->Format, form->NumChannels), rows,
                               &bytes) ||
        __builtin_mul_overflow(bytes, layers, &bytes) || bytes > 1ull << 44) {
        return 1ull << 44; /* no GPU has that much */
    }
    bytes += levels > 1 ? bytes / 3 + levels * UNEVICTABLE_PAGE : 0; /* each level is a quarter */
    return (bytes + UNEVICTABLE_PAGE - 1) / UNEVICTABLE_PAGE * UNEVICTABLE_PAGE;
}

#define LATER_FLAGS \
    (0x40u | 0x80u) /* sparse, or mapped later: what is mapped then is charged then */

typedef CUresult create_call(void **object, const CUDA_ARRAY3D_DESCRIPTOR *form, unsigned levels);

static CUresult create_3d(void **object, const CUDA_ARRAY3D_DESCRIPTOR *form, unsigned levels)
{
    (void)levels;
    return DRIVER(cuArray3DCreate_v2)((CUarray *)object, form);
}

static CUresult create_flat(void **object, const CUDA_ARRAY3D_DESCRIPTOR *form, unsigned levels)
{
    CUDA_ARRAY_DESCRIPTOR flat = {form->Width, form->Height, form->Format, form->NumChannels};
    (void)levels;
    return DRIVER(cuArrayCreate_v2)((CUarray *)object, &flat);
}

static CUresult create_mipmapped(void **object, const CUDA_ARRAY3D_DESCRIPTOR *form,
                                 unsigned levels)
{
    return DRIVER(cuMipmappedArrayCreate)((CUmipmappedArray *)object, form, levels);
}

/* The driver may need a little more memory than was charged: room is made for that as well. */
static CUresult try_create(create_call *call, void **object, const CUDA_ARRAY3D_DESCRIPTOR *form,
                           unsigned levels)
{
    CUresult result;
    unsigned attempt = 0;
    do {
        struct mw_slot *slot = gate_enter();
        result = call(object, form, levels);
        gate_leave(slot);
    } while (result == CUDA_ERROR_OUT_OF_MEMORY && oom_retry(attempt++));
    if (attempt) {
        oom_retry_done();
    }
    return result;
}

static CUresult create(create_call *call, void **object, const CUDA_ARRAY3D_DESCRIPTOR *form,
                       unsigned levels)
{
    struct device *device = NULL;
    CUcontext context = NULL;
    bool counts = client_is_active() && object && form && !(form->Flags & LATER_FLAGS) &&
                  device_current(&device) == CUDA_SUCCESS;
    bool pins = client_is_active() && form && form->Flags & LATER_FLAGS;
    uint64_t bytes = counts ? array_bytes(form, levels) : 0;
    CUresult result = CUDA_SUCCESS;
    if (counts) {
        result = unevictable_take(device, bytes);
    } else if (pins) {
        result = client_pin_begin("cuArrayCreate with memory mapped later");
    }
    if (result != CUDA_SUCCESS) {
        return result;
    }
    result = try_create(call, object, form, levels);
    if (pins) {
        client_pin_end(result == CUDA_SUCCESS);
    }
    if (counts && result == CUDA_SUCCESS) {
        DRIVER(cuCtxGetCurrent)(&context);
        unevictable_add(*object, context, device, bytes); /* without it, it stays charged */
    } else if (counts) {
        unevictable_give(device, bytes);
    }
    return result;
}

CUresult cuArray3DCreate_v2(CUarray *handle, const CUDA_ARRAY3D_DESCRIPTOR *allocate_array)
{
    return create(create_3d, (void **)handle, allocate_array, 1);
}

CUresult cuArrayCreate_v2(CUarray *handle, const CUDA_ARRAY_DESCRIPTOR *allocate_array)
{
    if (!allocate_array) {
        return DRIVER(cuArrayCreate_v2)(handle, NULL);
    }
    CUDA_ARRAY3D_DESCRIPTOR form = {.Width = allocate_array->Width,
                                    .Height = allocate_array->Height,
                                    .Format = allocate_array->Format,
                                    .NumChannels = allocate_array->NumChannels};
    return create(create_flat, (void **)handle, &form, 1);
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray *handle,
                                const CUDA_ARRAY3D_DESCRIPTOR *mipmapped_array_desc,
                                unsigned int num_mipmap_levels)
{
    return create(create_mipmapped, (void **)handle, mipmapped_array_desc, num_mipmap_levels);
}

CUresult cuArrayDestroy(CUarray array)
{
    CUresult result = DRIVER(cuArrayDestroy)(array);
    if (result == CUDA_SUCCESS && client_is_active()) {
        unevictable_remove(array);
    }
    return result;
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray mipmapped_array)
{
    CUresult result = DRIVER(cuMipmappedArrayDestroy)(mipmapped_array);
    if (result == CUDA_SUCCESS && client_is_active()) {
        unevictable_remove(mipmapped_array);
    }
    return result;
}
