/* Allocations that other processes may open: legacy CUDA IPC, which the driver does not do for
 * memory that it maps.
 *
 * The 64 bytes that the program hands to other processes hold a token. A process that brings the
 * token to the agent gets the memory behind it from this process, through the agent: one descriptor
 * for each chunk. Exported memory is pinned, until all processes that opened it have closed it; the next one that
 * asks for it has it pinned again.
 */
#ifndef MOIETY_SHIM_IPC_EXPORT_H
#define MOIETY_SHIM_IPC_EXPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda/cuda_abi.h"
#include "wire/wire.h"

struct extent;
struct ipc_export;

struct ipc_token {
    uint8_t bytes[MW_TOKEN_BYTES];
};

void ipc_token_write(CUipcMemHandle *handle, const struct ipc_token *token);
/* False: the handle holds no token. */
bool ipc_token_read(const CUipcMemHandle *handle, struct ipc_token *token);

/* The token of the allocation that `pointer` points into, the same each time; outside the gate.
 * CUDA_ERROR_NOT_FOUND: it is none that we can export, ask the driver. */
CUresult ipc_export_token(CUdeviceptr pointer, struct ipc_token *token);
/* Whether this process exported it. */
bool ipc_export_has(const struct ipc_token *token);

/* ---- with extent_lock held ---- */

/* The allocation at this address is freed; its extent may stay. */
void ipc_export_freed(CUdeviceptr base);
/* Takes the exports of an extent that is about to be destroyed. ipc_export_end tells the agent when
 * the extent is gone. */
struct ipc_export *ipc_export_take(const struct extent *extent);
void ipc_export_end(struct ipc_export *taken);
/* A new agent is told what may be opened. */
void ipc_export_tell(void);

/* ---- for the thread that receives messages ---- */

/* Another process wants to open what is behind a token. */
void ipc_export_asked(const struct mw_share *asked);
/* No process has open what is behind a token: it can leave until one asks for it again. */
void ipc_export_closed(const struct mw_share *closed);
void ipc_export_after_fork(void);

#endif
