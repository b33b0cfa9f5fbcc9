/* Memory and events of one process in another. */
#include "shim/agent/client_report.h"
#include "shim/base/driver.h"
#include "shim/gate/queue_depth.h"
#include "shim/ipc/export.h"
#include "shim/ipc/import.h"
#include "shim/mem/device.h"
#include "shim/mem/device_contexts.h"

CUresult cuIpcGetMemHandle(CUipcMemHandle *handle, CUdeviceptr pointer)
{
    struct ipc_token token;
    CUresult result = CUDA_ERROR_NOT_FOUND;
    if (client_is_active() && handle && device_check() == CUDA_SUCCESS) {
        result = ipc_export_token(pointer, &token);
    }
    if (result == CUDA_ERROR_NOT_FOUND) {
        return DRIVER(cuIpcGetMemHandle)(handle, pointer);
    }
    if (result == CUDA_SUCCESS) {
        ipc_token_write(handle, &token);
    }
    return result;
}

/* Opens a handle that holds a token. CUDA_ERROR_NOT_FOUND: the driver is to judge the handle. */
static CUresult open_ours(CUdeviceptr *pointer, const CUipcMemHandle *handle, unsigned flags)
{
    struct ipc_token token;
    if (!client_is_active() || !pointer || flags & ~(unsigned)CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS ||
        !ipc_token_read(handle, &token) || device_check() != CUDA_SUCCESS) {
        return CUDA_ERROR_NOT_FOUND;
    }
    queue_depth_be_impatient(); /* work that uses it may wait for the other process */
    return ipc_export_has(&token) ? CUDA_ERROR_INVALID_CONTEXT : ipc_import_open(&token, pointer);
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr *pointer, CUipcMemHandle handle, unsigned int flags)
{
    CUresult result = open_ours(pointer, &handle, flags);
    return result == CUDA_ERROR_NOT_FOUND ? DRIVER(cuIpcOpenMemHandle_v2)(pointer, handle, flags)
                                          : result;
}

CUresult cuIpcOpenMemHandle(CUdeviceptr *pointer, CUipcMemHandle handle, unsigned int flags)
{
    CUresult result = open_ours(pointer, &handle, flags);
    return result == CUDA_ERROR_NOT_FOUND ? DRIVER(cuIpcOpenMemHandle)(pointer, handle, flags)
                                          : result;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr pointer)
{
    CUresult result;
    if (client_is_active() && ipc_import_close(pointer, &result)) {
        return result;
    }
    return DRIVER(cuIpcCloseMemHandle)(pointer);
}

CUresult cuIpcOpenEventHandle(CUevent *event, CUipcEventHandle handle)
{
    queue_depth_be_impatient(); /* work that waits for it waits for another process */
    return DRIVER(cuIpcOpenEventHandle)(event, handle);
}
