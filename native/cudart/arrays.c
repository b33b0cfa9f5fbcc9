/* Arrays: made, asked about, ended. What reads them, textures and surfaces, is code of a GPU's and is not here. */
#include "cudart/runtime.h"

/* Bits of a channel for each kind of what they mean, as the driver names it; 0: it has no such format. */
static CUarray_format format_of(int bits, cudaChannelFormatKind kind)
{
    int is_signed = kind == cudaChannelFormatKindSigned;
    if (kind == cudaChannelFormatKindFloat) {
        return bits == 32 ? CU_AD_FORMAT_FLOAT : bits == 16 ? CU_AD_FORMAT_HALF : (CUarray_format)0;
    }
    if (!is_signed && kind != cudaChannelFormatKindUnsigned) {
        return (CUarray_format)0;
    }
    switch (bits) {
    case 8:
        return is_signed ? CU_AD_FORMAT_SIGNED_INT8 : CU_AD_FORMAT_UNSIGNED_INT8;
    case 16:
        return is_signed ? CU_AD_FORMAT_SIGNED_INT16 : CU_AD_FORMAT_UNSIGNED_INT16;
    case 32:
        return is_signed ? CU_AD_FORMAT_SIGNED_INT32 : CU_AD_FORMAT_UNSIGNED_INT32;
    default:
        return (CUarray_format)0;
    }
}

/* The other way round. */
static int bits_of(CUarray_format format, cudaChannelFormatKind *kind)
{
    static const int sizes[] = {8, 16, 32};
    for (int i = 0; i < 3; i++) {
        for (int k = cudaChannelFormatKindSigned; k <= cudaChannelFormatKindFloat; k++) {
            if (format_of(sizes[i], (cudaChannelFormatKind)k) == format) {
                *kind = (cudaChannelFormatKind)k;
                return sizes[i];
            }
        }
    }
    return 0;
}

static cudaError_t describe(CUarray array, CUDA_ARRAY3D_DESCRIPTOR *form, int *bits,
                            cudaChannelFormatKind *kind)
{
    RT_TRY(rt_context());
    RT_TRY(rt_driver.cuArray3DGetDescriptor(form, array));
    *bits = bits_of(form->Format, kind);
    return *bits ? cudaSuccess : rt_end(cudaErrorNotSupported);
}

cudaError_t rt_element(CUarray array, size_t *bytes)
{
    CUDA_ARRAY3D_DESCRIPTOR form;
    cudaChannelFormatKind kind;
    int bits;
    cudaError_t result = describe(array, &form, &bits, &kind);
    if (!result) {
        *bytes = (size_t)bits / 8 * form.NumChannels;
    }
    return result;
}

RT_CALL(cudaMalloc3DArray, CUarray *out, const cudaChannelFormatDesc *channels, cudaExtent extent,
        unsigned int flags)
{
    if (!out || !channels) {
        return rt_end(cudaErrorInvalidValue);
    }
    const int bits[] = {channels->x, channels->y, channels->z, channels->w};
    unsigned count = 0;
    while (count < 4 && bits[count] && bits[count] == bits[0]) {
        count++;
    }
    CUDA_ARRAY3D_DESCRIPTOR form = {.Width = extent.width,
                                    .Height = extent.height,
                                    .Depth = extent.depth,
                                    .Format = format_of(bits[0], channels->f),
                                    .NumChannels = count,
                                    .Flags = flags};
    if (!form.Format || (count < 4 && bits[count])) {
        return rt_end(cudaErrorInvalidChannelDescriptor);
    }
    RT_PASS(rt_driver.cuArray3DCreate(out, &form));
}

RT_CALL(cudaMallocArray, CUarray *out, const cudaChannelFormatDesc *channels, size_t width,
        size_t height, unsigned int flags)
{
    return cudaMalloc3DArray(out, channels, (cudaExtent){.width = width, .height = height}, flags);
}

RT_CALL(cudaFreeArray, CUarray array)
{
    if (!array) {
        return cudaSuccess;
    }
    RT_PASS(rt_driver.cuArrayDestroy(array));
}

RT_CALL(cudaGetChannelDesc, cudaChannelFormatDesc *out, CUarray array)
{
    CUDA_ARRAY3D_DESCRIPTOR form;
    cudaChannelFormatKind kind;
    int bits;
    if (!out) {
        return rt_end(cudaErrorInvalidValue);
    }
    cudaError_t result = describe(array, &form, &bits, &kind);
    if (!result) {
        unsigned n = form.NumChannels;
        *out = (cudaChannelFormatDesc){.x = bits,
                                       .y = n > 1 ? bits : 0,
                                       .z = n > 2 ? bits : 0,
                                       .w = n > 3 ? bits : 0,
                                       .f = kind};
    }
    return result;
}

/* ---- textures and surfaces: programs look for them when they are loaded ---- */
#define NOT_HERE(name, ...) \
    RT_CALL(name, __VA_ARGS__) { return rt_end(cudaErrorNotSupported); }

#pragma GCC diagnostic ignored "-Wunused-parameter"
NOT_HERE(cudaCreateTextureObject, uint64_t *out, const void *resource, const void *texture,
         const void *view)
NOT_HERE(cudaDestroyTextureObject, uint64_t texture)
NOT_HERE(cudaGetTextureObjectResourceDesc, void *out, uint64_t texture)
NOT_HERE(cudaGetTextureObjectTextureDesc, void *out, uint64_t texture)
NOT_HERE(cudaCreateSurfaceObject, uint64_t *out, const void *resource)
NOT_HERE(cudaDestroySurfaceObject, uint64_t surface)
