/* The entry points about arrays. */
#include <stdlib.h>

#include "simgpu/base/devices.h"
#include "simgpu/base/handles.h"
#include "simgpu/context/context_stack.h"
#include "simgpu/mem/array.h"
#include "simgpu/mem/memory.h"
#include "simgpu/stream/capture_rules.h"
#include "simgpu/stream/stream.h"

#define LARGEST 131072u
#define NO_MEMORY_YET \
    (0x40u | 0x80u) /* sparse arrays and deferred mapping, which the device attributes deny */
#define KNOWN_FLAGS 0xffu
#define CUBEMAP 4u
#define LEVELS_MAX 32u

struct CUmipmappedArray_st {
    CUdeviceptr base;
    CUcontext context;
    unsigned count;
    struct CUarray_st level[];
};

/* Bytes of one channel. Returns 0 for formats of several planes or of blocks, which are not supported. */
static size_t channel_bytes(CUarray_format format)
{
    switch (format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
        return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
        return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
        return 4;
    default:
        return 0;
    }
}

static CUresult check(const CUDA_ARRAY3D_DESCRIPTOR *form)
{
    if (!form || !form->Width || form->Width > LARGEST || form->Height > LARGEST ||
        form->Depth > LARGEST || form->Flags & ~KNOWN_FLAGS ||
        (form->NumChannels != 1 && form->NumChannels != 2 && form->NumChannels != 4)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (form->Flags & CUBEMAP && (form->Width != form->Height || form->Depth % 6)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (form->Flags & NO_MEMORY_YET || !channel_bytes(form->Format)) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    return CUDA_SUCCESS;
}

/* What it takes. */
static size_t lay_out(CUarray array, CUcontext context, const CUDA_ARRAY3D_DESCRIPTOR *form)
{
    size_t rows = form->Height ? form->Height : 1, layers = form->Depth ? form->Depth : 1;
    *array = (struct CUarray_st){.context = context, .form = *form};
    array->pitch = form->Width * form->NumChannels * channel_bytes(form->Format);
    array->slice = array->pitch * rows;
    return array->slice * layers;
}

CUresult cuArray3DCreate_v2(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *form)
{
    SG_CONTEXT(context);
    if (!out) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    SG_TRY(check(form));
    SG_TRY(sg_capture_forbids());
    CUarray array = calloc(1, sizeof *array);
    if (!array) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    CUresult result = sg_memory_alloc(context, &array->base, lay_out(array, context, form));
    if (result) {
        free(array);
        return result;
    }
    sg_handle_add(array, SG_ARRAY);
    *out = array;
    return CUDA_SUCCESS;
}

CUresult cuArrayCreate_v2(CUarray *out, const CUDA_ARRAY_DESCRIPTOR *form)
{
    if (!form) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUDA_ARRAY3D_DESCRIPTOR flat = {.Width = form->Width,
                                    .Height = form->Height,
                                    .Format = form->Format,
                                    .NumChannels = form->NumChannels};
    return cuArray3DCreate_v2(out, &flat);
}

CUresult cuArrayDestroy(CUarray handle)
{
    SG_ENTER();
    CUarray array = sg_array(handle);
    if (!array || array->mipmapped) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    SG_TRY(sg_capture_forbids());
    sg_context_drain(array->context);
    sg_handle_remove(array, SG_ARRAY);
    sg_memory_free(array->base); /* gone already where its context is */
    free(array);
    return CUDA_SUCCESS;
}

CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *form, CUarray handle)
{
    SG_ENTER();
    CUarray array = sg_array(handle);
    if (!form || !array) {
        return array ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    }
    *form = array->form;
    return CUDA_SUCCESS;
}

CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *form, CUarray handle)
{
    SG_ENTER();
    CUarray array = sg_array(handle);
    if (!form || !array) {
        return array ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
    }
    *form = (CUDA_ARRAY_DESCRIPTOR){array->form.Width, array->form.Height, array->form.Format,
                                    array->form.NumChannels};
    return CUDA_SUCCESS;
}

/* Sparse arrays, arrays with deferred mapping and arrays of several planes are not supported. */
CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *out, CUarray handle,
                                      CUdevice device)
{
    SG_ENTER();
    (void)out;
    return !sg_device_is(device) ? CUDA_ERROR_INVALID_DEVICE
           : sg_array(handle)    ? CUDA_ERROR_INVALID_VALUE
                                 : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuArrayGetPlane(CUarray *out, CUarray handle, unsigned int plane)
{
    SG_ENTER();
    (void)out, (void)plane;
    return sg_array(handle) ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
}

/* ---- several sizes of one ---- */

static CUDA_ARRAY3D_DESCRIPTOR at_level(const CUDA_ARRAY3D_DESCRIPTOR *form, unsigned level)
{
    CUDA_ARRAY3D_DESCRIPTOR smaller = *form;
    size_t least = 1;
    smaller.Width = form->Width >> level > least ? form->Width >> level : least;
    smaller.Height = !form->Height                   ? 0
                     : form->Height >> level > least ? form->Height >> level
                                                     : least;
    if (!(form->Flags & 1u) && form->Depth) { /* layers stay as many */
        smaller.Depth = form->Depth >> level > least ? form->Depth >> level : least;
    }
    return smaller;
}

CUresult cuMipmappedArrayCreate(CUmipmappedArray *out, const CUDA_ARRAY3D_DESCRIPTOR *form,
                                unsigned int levels)
{
    SG_CONTEXT(context);
    if (!out || !levels) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    SG_TRY(check(form));
    SG_TRY(sg_capture_forbids());
    size_t largest = form->Width > form->Height ? form->Width : form->Height;
    unsigned most = 1;
    while (most < LEVELS_MAX && largest >> most) {
        most++;
    }
    unsigned count = levels < most ? levels : most;
    CUmipmappedArray made = calloc(1, sizeof *made + count * sizeof *made->level);
    if (!made) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    size_t bytes = 0, start[LEVELS_MAX];
    for (unsigned i = 0; i < count; i++) {
        CUDA_ARRAY3D_DESCRIPTOR smaller = at_level(form, i);
        start[i] = bytes;
        bytes += lay_out(&made->level[i], context, &smaller);
        made->level[i].mipmapped = made;
    }
    CUresult result = sg_memory_alloc(context, &made->base, bytes);
    if (result) {
        free(made);
        return result;
    }
    made->context = context;
    made->count = count;
    for (unsigned i = 0; i < count; i++) {
        made->level[i].base = made->base + start[i];
        sg_handle_add(&made->level[i], SG_ARRAY);
    }
    sg_handle_add(made, SG_MIPMAPPED_ARRAY);
    *out = made;
    return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayGetLevel(CUarray *out, CUmipmappedArray handle, unsigned int level)
{
    SG_ENTER();
    if (!sg_handle_is(handle, SG_MIPMAPPED_ARRAY)) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    if (!out || level >= handle->count) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *out = &handle->level[level];
    return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayDestroy(CUmipmappedArray handle)
{
    SG_ENTER();
    if (!sg_handle_is(handle, SG_MIPMAPPED_ARRAY)) {
        return CUDA_ERROR_INVALID_HANDLE;
    }
    SG_TRY(sg_capture_forbids());
    sg_context_drain(handle->context);
    sg_handle_remove(handle, SG_MIPMAPPED_ARRAY);
    for (unsigned i = 0; i < handle->count; i++) {
        sg_handle_remove(&handle->level[i], SG_ARRAY);
    }
    sg_memory_free(handle->base);
    free(handle);
    return CUDA_SUCCESS;
}

CUresult cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *out,
                                               CUmipmappedArray handle, CUdevice device)
{
    SG_ENTER();
    (void)out;
    return !sg_device_is(device)                      ? CUDA_ERROR_INVALID_DEVICE
           : sg_handle_is(handle, SG_MIPMAPPED_ARRAY) ? CUDA_ERROR_INVALID_VALUE
                                                      : CUDA_ERROR_INVALID_HANDLE;
}

/* ---- copies of bytes in a row ---- */

static CUresult place(CUarray array, size_t offset, size_t bytes, CUdeviceptr *at)
{
    SG_ENTER();
    uint64_t base = sg_array_has(array, offset, 0, 0, bytes, 1, 1);
    *at = base + offset;
    return base              ? CUDA_SUCCESS
           : sg_array(array) ? CUDA_ERROR_INVALID_VALUE
                             : CUDA_ERROR_INVALID_HANDLE;
}

CUresult cuMemcpyDtoA_v2(CUarray dst, size_t offset, CUdeviceptr src, size_t bytes)
{
    CUdeviceptr at;
    SG_TRY(place(dst, offset, bytes, &at));
    return cuMemcpyDtoD_v2(at, src, bytes);
}

CUresult cuMemcpyAtoD_v2(CUdeviceptr dst, CUarray src, size_t offset, size_t bytes)
{
    CUdeviceptr at;
    SG_TRY(place(src, offset, bytes, &at));
    return cuMemcpyDtoD_v2(dst, at, bytes);
}

CUresult cuMemcpyHtoA_v2(CUarray dst, size_t offset, const void *src, size_t bytes)
{
    CUdeviceptr at;
    SG_TRY(place(dst, offset, bytes, &at));
    return cuMemcpyHtoD_v2(at, src, bytes);
}

CUresult cuMemcpyAtoH_v2(void *dst, CUarray src, size_t offset, size_t bytes)
{
    CUdeviceptr at;
    SG_TRY(place(src, offset, bytes, &at));
    return cuMemcpyDtoH_v2(dst, at, bytes);
}

CUresult cuMemcpyAtoA_v2(CUarray dst, size_t dst_offset, CUarray src, size_t src_offset,
                         size_t bytes)
{
    CUdeviceptr from, to;
    SG_TRY(place(dst, dst_offset, bytes, &to));
    SG_TRY(place(src, src_offset, bytes, &from));
    return cuMemcpyDtoD_v2(to, from, bytes);
}

CUresult cuMemcpyHtoAAsync_v2(CUarray dst, size_t offset, const void *src, size_t bytes,
                              CUstream stream)
{
    CUdeviceptr at;
    SG_TRY(place(dst, offset, bytes, &at));
    return cuMemcpyHtoDAsync_v2(at, src, bytes, stream);
}

CUresult cuMemcpyAtoHAsync_v2(void *dst, CUarray src, size_t offset, size_t bytes, CUstream stream)
{
    CUdeviceptr at;
    SG_TRY(place(src, offset, bytes, &at));
    return cuMemcpyDtoHAsync_v2(dst, at, bytes, stream);
}
