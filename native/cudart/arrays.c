/* Arrays: creation, queries and destruction. Textures and surfaces are not supported: only GPU code reads
 * them. */
#include "cudart/arrays.h"

#include "cudart/driver.h"
#include "cudart/runtime.h"
#include "cudart/thread.h"

/* Channels: how many bits, what they mean, and the driver's name for both. */
static const struct form {
    int bits;
    cudaChannelFormatKind kind;
    CUarray_format format;
} forms[] = {
    {8, cudaChannelFormatKindSigned, CU_AD_FORMAT_SIGNED_INT8},
    {16, cudaChannelFormatKindSigned, CU_AD_FORMAT_SIGNED_INT16},
    {32, cudaChannelFormatKindSigned, CU_AD_FORMAT_SIGNED_INT32},
    {8, cudaChannelFormatKindUnsigned, CU_AD_FORMAT_UNSIGNED_INT8},
    {16, cudaChannelFormatKindUnsigned, CU_AD_FORMAT_UNSIGNED_INT16},
    {32, cudaChannelFormatKindUnsigned, CU_AD_FORMAT_UNSIGNED_INT32},
    {16, cudaChannelFormatKindFloat, CU_AD_FORMAT_HALF},
    {32, cudaChannelFormatKindFloat, CU_AD_FORMAT_FLOAT},
};
#define FORMS (sizeof forms / sizeof *forms)

static const struct form *form_of(int bits, cudaChannelFormatKind kind)
{
    for (size_t i = 0; i < FORMS; i++) {
        if (forms[i].bits == bits && forms[i].kind == kind) {
            return &forms[i];
        }
    }
    return NULL;
}

/* What an array's elements are; NULL: what `result` says. */
static const struct form *describe(CUarray array, unsigned *count, cudaError_t *result)
{
    CUDA_ARRAY3D_DESCRIPTOR made = {.Format = CU_AD_FORMAT_FLOAT};
    *result = rt_context();
    if (!*result) {
        *result = rt_end((cudaError_t)rt_driver.cuArray3DGetDescriptor(&made, array));
    }
    for (size_t i = 0; !*result && i < FORMS; i++) {
        if (forms[i].format == made.Format) {
            *count = made.NumChannels;
            return &forms[i];
        }
    }
    *result = *result ? *result : rt_end(cudaErrorNotSupported);
    return NULL;
}

cudaError_t rt_element(CUarray array, size_t *bytes)
{
    unsigned count = 0;
    cudaError_t result;
    const struct form *form = describe(array, &count, &result);
    if (form) {
        *bytes = (size_t)form->bits / 8 * count;
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
    const struct form *form = form_of(bits[0], channels->f);
    if (!form || (count < 4 && bits[count])) {
        return rt_end(cudaErrorInvalidChannelDescriptor);
    }
    CUDA_ARRAY3D_DESCRIPTOR wanted = {.Width = extent.width,
                                      .Height = extent.height,
                                      .Depth = extent.depth,
                                      .Format = form->format,
                                      .NumChannels = count,
                                      .Flags = flags};
    RT_PASS(rt_driver.cuArray3DCreate(out, &wanted));
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
    unsigned count = 0;
    cudaError_t result;
    if (!out) {
        return rt_end(cudaErrorInvalidValue);
    }
    const struct form *form = describe(array, &count, &result);
    if (form) {
        int bits = form->bits;
        *out = (cudaChannelFormatDesc){.x = bits,
                                       .y = count > 1 ? bits : 0,
                                       .z = count > 2 ? bits : 0,
                                       .w = count > 3 ? bits : 0,
                                       .f = form->kind};
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
