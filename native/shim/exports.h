/* Allocations that other processes may open: legacy CUDA IPC, which the driver does not do for memory
 * that it maps.
 *
 * The 64 bytes that the program hands to others hold a token. Whoever brings it to the agent gets what
 * is behind it from us, by the agent: one descriptor for each chunk. What was exported never leaves.
 */
#ifndef MOIETY_SHIM_EXPORTS_H
#define MOIETY_SHIM_EXPORTS_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda/cuda_abi.h"
#include "wire/wire.h"

struct block;
struct export;

struct token {
    uint8_t bytes[MW_TOKEN_BYTES];
};

void token_write(CUipcMemHandle *handle, const struct token *token);
/* False: the handle is none of ours. */
bool token_read(const CUipcMemHandle *handle, struct token *token);

/* The token of the allocation that `pointer` points into, the same each time; outside the gate.
 * CUDA_ERROR_NOT_FOUND: it is none that we can export, ask the driver. */
CUresult exports_token(CUdeviceptr pointer, struct token *token);
/* Whether this process exported it. */
bool exports_has(const struct token *token);

/* ---- with blocks_lock held ---- */

/* The allocation at this address is freed; its block may stay. */
void exports_freed(CUdeviceptr base);
/* Those in a block that is about to be destroyed are no more; when it is, the agent is told. */
struct export *exports_take(const struct block *block);
void exports_end(struct export *taken);
/* A new agent is told what may be opened. */
void exports_tell(void);

/* ---- for who hears the agent ---- */

/* Somebody wants to open what is behind a token. */
void exports_asked(const struct mw_share *asked);
void exports_after_fork(void);

#endif
