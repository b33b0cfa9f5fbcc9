/* Copies and memory sets of one row of bytes. */
#include "cudart/driver.h"
#include "cudart/registration.h"
#include "cudart/runtime.h"
#include "cudart/thread.h"

static int is_kind(cudaMemcpyKind kind) { return kind <= cudaMemcpyDefault; }

static CUresult copy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind)
{
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return rt_stream_driver.cuMemcpyHtoD(rt_address(to), from, bytes);
    case cudaMemcpyDeviceToHost:
        return rt_stream_driver.cuMemcpyDtoH(to, rt_address(from), bytes);
    case cudaMemcpyDeviceToDevice:
        return rt_stream_driver.cuMemcpyDtoD(rt_address(to), rt_address(from), bytes);
    default: /* the driver sees what the addresses are */
        return rt_stream_driver.cuMemcpy(rt_address(to), rt_address(from), bytes);
    }
}

static CUresult copy_async(void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
                           CUstream stream)
{
    switch (kind) {
    case cudaMemcpyHostToDevice:
        return rt_stream_driver.cuMemcpyHtoDAsync(rt_address(to), from, bytes, stream);
    case cudaMemcpyDeviceToHost:
        return rt_stream_driver.cuMemcpyDtoHAsync(to, rt_address(from), bytes, stream);
    case cudaMemcpyDeviceToDevice:
        return rt_stream_driver.cuMemcpyDtoDAsync(rt_address(to), rt_address(from), bytes, stream);
    default:
        return rt_stream_driver.cuMemcpyAsync(rt_address(to), rt_address(from), bytes, stream);
    }
}

RT_CALL(RT_DS(cudaMemcpy), void *to, const void *from, size_t bytes, cudaMemcpyKind kind)
{
    RT_TRY(rt_context());
    if (!is_kind(kind)) {
        return rt_end(cudaErrorInvalidMemcpyDirection);
    }
    return bytes ? rt_end((cudaError_t)copy(to, from, bytes, kind)) : cudaSuccess;
}

RT_CALL(RT_SZ(cudaMemcpyAsync), void *to, const void *from, size_t bytes, cudaMemcpyKind kind,
        CUstream stream)
{
    RT_TRY(rt_context());
    if (!is_kind(kind)) {
        return rt_end(cudaErrorInvalidMemcpyDirection);
    }
    return bytes ? rt_end((cudaError_t)copy_async(to, from, bytes, kind, stream)) : cudaSuccess;
}

RT_CALL(RT_DS(cudaMemcpyPeer), void *to, int to_device, const void *from, int from_device,
        size_t bytes)
{
    CUcontext into, out;
    RT_TRY(rt_primary(to_device, &into));
    RT_TRY(rt_primary(from_device, &out));
    RT_PASS(rt_stream_driver.cuMemcpyPeer(rt_address(to), into, rt_address(from), out, bytes));
}

RT_CALL(RT_SZ(cudaMemcpyPeerAsync), void *to, int to_device, const void *from, int from_device,
        size_t bytes, CUstream stream)
{
    CUcontext into, out;
    RT_TRY(rt_primary(to_device, &into));
    RT_TRY(rt_primary(from_device, &out));
    RT_PASS(rt_stream_driver.cuMemcpyPeerAsync(rt_address(to), into, rt_address(from), out, bytes,
                                               stream));
}

/* ---- variables of device code ---- */

static cudaError_t within(const void *symbol, size_t offset, size_t bytes, char **address)
{
    CUdeviceptr start;
    size_t size;
    RT_TRY(rt_symbol(symbol, &start, &size));
    if (offset > size || bytes > size - offset) {
        return rt_end(cudaErrorInvalidValue);
    }
    *address = (char *)(uintptr_t)start + offset;
    return cudaSuccess;
}

RT_CALL(RT_DS(cudaMemcpyToSymbol), const void *symbol, const void *from, size_t bytes,
        size_t offset, cudaMemcpyKind kind)
{
    char *to = NULL;
    cudaError_t result = within(symbol, offset, bytes, &to);
    return result ? result : RT_DS(cudaMemcpy)(to, from, bytes, kind);
}

RT_CALL(RT_SZ(cudaMemcpyToSymbolAsync), const void *symbol, const void *from, size_t bytes,
        size_t offset, cudaMemcpyKind kind, CUstream stream)
{
    char *to = NULL;
    cudaError_t result = within(symbol, offset, bytes, &to);
    return result ? result : RT_SZ(cudaMemcpyAsync)(to, from, bytes, kind, stream);
}

RT_CALL(RT_DS(cudaMemcpyFromSymbol), void *to, const void *symbol, size_t bytes, size_t offset,
        cudaMemcpyKind kind)
{
    char *from = NULL;
    cudaError_t result = within(symbol, offset, bytes, &from);
    return result ? result : RT_DS(cudaMemcpy)(to, from, bytes, kind);
}

/* ---- memory sets ---- */

RT_CALL(RT_DS(cudaMemset), void *pointer, int value, size_t bytes)
{
    RT_TRY(rt_context());
    return bytes ? rt_end((cudaError_t)rt_stream_driver.cuMemsetD8(rt_address(pointer),
                                                                   (unsigned char)value, bytes))
                 : cudaSuccess;
}

RT_CALL(RT_SZ(cudaMemsetAsync), void *pointer, int value, size_t bytes, CUstream stream)
{
    RT_TRY(rt_context());
    return bytes ? rt_end((cudaError_t)rt_stream_driver.cuMemsetD8Async(
                       rt_address(pointer), (unsigned char)value, bytes, stream))
                 : cudaSuccess;
}
