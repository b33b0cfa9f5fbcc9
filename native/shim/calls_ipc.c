/* Memory and events of one process in another. */
#include "shim/control.h"
#include "shim/devices.h"
#include "shim/exports.h"
#include "shim/imports.h"
#include "shim/pace.h"
#include "shim/real.h"

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr pointer)
{
    struct token token;
    CUresult result = CUDA_ERROR_NOT_FOUND;
    if (control_is_active() && handle && device_check() == CUDA_SUCCESS) {
        result = exports_token(pointer, &token);
    }
    if (result == CUDA_ERROR_NOT_FOUND) {
        return REAL(cuIpcGetMemHandle)(handle, pointer);
    }
    if (result == CUDA_SUCCESS) {
        token_write(handle, &token);
    }
    return result;
}

/* What a token is worth: CUDA_ERROR_NOT_FOUND where the driver is to say what such a handle is to it. */
static CUresult open_ours(CUdeviceptr *pointer, const CUipcMemHandle *handle, unsigned flags)
{
    struct token token;
    if (!control_is_active() || !pointer || flags & ~(unsigned)CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS ||
        !token_read(handle, &token) || device_check() != CUDA_SUCCESS) {
        return CUDA_ERROR_NOT_FOUND;
    }
    pace_be_impatient(); /* what uses it will wait for the other process */
    return exports_has(&token) ? CUDA_ERROR_INVALID_CONTEXT : imports_open(&token, pointer);
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *pointer, CUipcMemHandle handle, unsigned int flags)
{
    CUresult result = open_ours(pointer, &handle, flags);
    return result == CUDA_ERROR_NOT_FOUND ? REAL(cuIpcOpenMemHandle_v2)(pointer, handle, flags)
                                          : result;
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *pointer, CUipcMemHandle handle, unsigned int flags)
{
    CUresult result = open_ours(pointer, &handle, flags);
    return result == CUDA_ERROR_NOT_FOUND ? REAL(cuIpcOpenMemHandle)(pointer, handle, flags)
                                          : result;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr pointer)
{
    CUresult result;
    if (control_is_active() && imports_close(pointer, &result)) {
        return result;
    }
    return REAL(cuIpcCloseMemHandle)(pointer);
}

CUresult cuIpcOpenEventHandle(CUevent *event, CUipcEventHandle handle)
{
    pace_be_impatient(); /* who waits for it waits for another process */
    return REAL(cuIpcOpenEventHandle)(event, handle);
}
