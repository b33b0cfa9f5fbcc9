/* Copies and memory sets of several rows, and of layers of them. */
#include "cudart/arrays.h"
#include "cudart/driver.h"
#include "cudart/runtime.h"
#include "cudart/thread.h"

static CUmemorytype source_of(cudaMemcpyKind kind)
{
    return kind == cudaMemcpyHostToDevice || kind == cudaMemcpyHostToHost ? CU_MEMORYTYPE_HOST
                                                                          : CU_MEMORYTYPE_UNIFIED;
}

static CUmemorytype target_of(cudaMemcpyKind kind)
{
    return kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyHostToHost ? CU_MEMORYTYPE_HOST
                                                                          : CU_MEMORYTYPE_UNIFIED;
}

static CUDA_MEMCPY2D rows(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                          size_t width, size_t height, cudaMemcpyKind kind)
{
    return (CUDA_MEMCPY2D){.srcMemoryType = source_of(kind),
                           .srcHost = from,
                           .srcDevice = rt_address(from),
                           .srcPitch = from_pitch,
                           .dstMemoryType = target_of(kind),
                           .dstHost = to,
                           .dstDevice = rt_address(to),
                           .dstPitch = to_pitch,
                           .WidthInBytes = width,
                           .Height = height};
}

RT_CALL(RT_DS(cudaMemcpy2D), void *to, size_t to_pitch, const void *from, size_t from_pitch,
        size_t width, size_t height, cudaMemcpyKind kind)
{
    CUDA_MEMCPY2D what = rows(to, to_pitch, from, from_pitch, width, height, kind);
    RT_TRY(rt_context());
    return width && height ? rt_end((cudaError_t)rt_stream_driver.cuMemcpy2DUnaligned(&what))
                           : cudaSuccess;
}

RT_CALL(RT_SZ(cudaMemcpy2DAsync), void *to, size_t to_pitch, const void *from, size_t from_pitch,
        size_t width, size_t height, cudaMemcpyKind kind, CUstream stream)
{
    CUDA_MEMCPY2D what = rows(to, to_pitch, from, from_pitch, width, height, kind);
    RT_TRY(rt_context());
    return width && height ? rt_end((cudaError_t)rt_stream_driver.cuMemcpy2DAsync(&what, stream))
                           : cudaSuccess;
}

/* Where an array takes part, it is one side, and the runtime counts in its elements. */
static cudaError_t layers(const cudaMemcpy3DParms *p, CUDA_MEMCPY3D *what)
{
    size_t from = 1, to = 1;
    if (!p) {
        return cudaErrorInvalidValue;
    }
    if (p->srcArray) {
        RT_TRY(rt_element(p->srcArray, &from));
    }
    if (p->dstArray) {
        RT_TRY(rt_element(p->dstArray, &to));
    }
    *what = (CUDA_MEMCPY3D){.srcXInBytes = p->srcPos.x * from,
                            .srcY = p->srcPos.y,
                            .srcZ = p->srcPos.z,
                            .srcMemoryType = p->srcArray ? CU_MEMORYTYPE_ARRAY : source_of(p->kind),
                            .srcHost = p->srcPtr.ptr,
                            .srcDevice = rt_address(p->srcPtr.ptr),
                            .srcArray = p->srcArray,
                            .srcPitch = p->srcPtr.pitch,
                            .srcHeight = p->srcPtr.ysize,
                            .dstXInBytes = p->dstPos.x * to,
                            .dstY = p->dstPos.y,
                            .dstZ = p->dstPos.z,
                            .dstMemoryType = p->dstArray ? CU_MEMORYTYPE_ARRAY : target_of(p->kind),
                            .dstHost = p->dstPtr.ptr,
                            .dstDevice = rt_address(p->dstPtr.ptr),
                            .dstArray = p->dstArray,
                            .dstPitch = p->dstPtr.pitch,
                            .dstHeight = p->dstPtr.ysize,
                            .WidthInBytes = p->extent.width * (p->srcArray ? from : to),
                            .Height = p->extent.height,
                            .Depth = p->extent.depth};
    return cudaSuccess;
}

RT_CALL(RT_DS(cudaMemcpy3D), const cudaMemcpy3DParms *parameters)
{
    CUDA_MEMCPY3D what;
    RT_TRY(layers(parameters, &what));
    RT_PASS(rt_stream_driver.cuMemcpy3D(&what));
}

RT_CALL(RT_SZ(cudaMemcpy3DAsync), const cudaMemcpy3DParms *parameters, CUstream stream)
{
    CUDA_MEMCPY3D what;
    RT_TRY(layers(parameters, &what));
    RT_PASS(rt_stream_driver.cuMemcpy3DAsync(&what, stream));
}

/* ---- rows of arrays, whose offsets are bytes ---- */

static CUDA_MEMCPY2D into_array(CUarray to, size_t x, size_t y, const void *from, size_t pitch,
                                size_t width, size_t height, cudaMemcpyKind kind)
{
    CUDA_MEMCPY2D what = rows(NULL, 0, from, pitch, width, height, kind);
    what.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    what.dstArray = to;
    what.dstXInBytes = x;
    what.dstY = y;
    return what;
}

static CUDA_MEMCPY2D out_of_array(void *to, size_t pitch, CUarray from, size_t x, size_t y,
                                  size_t width, size_t height, cudaMemcpyKind kind)
{
    CUDA_MEMCPY2D what = rows(to, pitch, NULL, 0, width, height, kind);
    what.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    what.srcArray = from;
    what.srcXInBytes = x;
    what.srcY = y;
    return what;
}

RT_CALL(RT_DS(cudaMemcpy2DToArray), CUarray to, size_t x, size_t y, const void *from, size_t pitch,
        size_t width, size_t height, cudaMemcpyKind kind)
{
    CUDA_MEMCPY2D what = into_array(to, x, y, from, pitch, width, height, kind);
    RT_PASS(rt_stream_driver.cuMemcpy2DUnaligned(&what));
}

RT_CALL(RT_SZ(cudaMemcpy2DToArrayAsync), CUarray to, size_t x, size_t y, const void *from,
        size_t pitch, size_t width, size_t height, cudaMemcpyKind kind, CUstream stream)
{
    CUDA_MEMCPY2D what = into_array(to, x, y, from, pitch, width, height, kind);
    RT_PASS(rt_stream_driver.cuMemcpy2DAsync(&what, stream));
}

RT_CALL(RT_DS(cudaMemcpy2DFromArray), void *to, size_t pitch, CUarray from, size_t x, size_t y,
        size_t width, size_t height, cudaMemcpyKind kind)
{
    CUDA_MEMCPY2D what = out_of_array(to, pitch, from, x, y, width, height, kind);
    RT_PASS(rt_stream_driver.cuMemcpy2DUnaligned(&what));
}

RT_CALL(RT_SZ(cudaMemcpy2DFromArrayAsync), void *to, size_t pitch, CUarray from, size_t x, size_t y,
        size_t width, size_t height, cudaMemcpyKind kind, CUstream stream)
{
    CUDA_MEMCPY2D what = out_of_array(to, pitch, from, x, y, width, height, kind);
    RT_PASS(rt_stream_driver.cuMemcpy2DAsync(&what, stream));
}

RT_CALL(RT_DS(cudaMemset2D), void *pointer, size_t pitch, int value, size_t width, size_t height)
{
    RT_PASS(rt_stream_driver.cuMemsetD2D8(rt_address(pointer), pitch, (unsigned char)value, width,
                                          height));
}

RT_CALL(RT_SZ(cudaMemset2DAsync), void *pointer, size_t pitch, int value, size_t width,
        size_t height, CUstream stream)
{
    RT_PASS(rt_stream_driver.cuMemsetD2D8Async(rt_address(pointer), pitch, (unsigned char)value,
                                               width, height, stream));
}
