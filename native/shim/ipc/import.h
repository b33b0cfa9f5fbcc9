/* Memory of other processes that this one opened by a token of theirs (export.h). */
#ifndef MOIETY_SHIM_IPC_IMPORT_H
#define MOIETY_SHIM_IPC_IMPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda/cuda_abi.h"
#include "shim/ipc/export.h"

/* Maps what is behind a token, for the current context. The second time it returns the same
 * address. CUDA_ERROR_NOT_FOUND: no process has such a token. */
CUresult ipc_import_open(const struct ipc_token *token, CUdeviceptr *pointer);
/* Closes the import once; false: the pointer is no import. */
bool ipc_import_close(CUdeviceptr pointer, CUresult *result);
struct address_info;
/* What the pointer points to; false: the pointer is no import. */
bool ipc_import_describe(CUdeviceptr pointer, struct address_info *info);
/* The context is gone, and all that was opened for it. */
void ipc_import_forget(CUcontext context);
/* A new agent is told what is open. */
void ipc_import_tell(void);

/* Control thread: some pieces of what was asked for have come, or there is nothing. */
void ipc_import_pieces(const struct mw_share *pieces);
void ipc_import_after_fork(void);

#endif
