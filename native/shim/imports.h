/* Memory of other processes that this one opened by a token of theirs (exports.h). */
#ifndef MOIETY_SHIM_IMPORTS_H
#define MOIETY_SHIM_IMPORTS_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda/cuda_abi.h"
#include "shim/exports.h"

/* Maps what is behind a token, for the current context; once more, it is the same address.
 * CUDA_ERROR_NOT_FOUND: nobody has such a token. */
CUresult imports_open(const struct token *token, CUdeviceptr *pointer);
/* Gives it back once; false: it is none of ours. */
bool imports_close(CUdeviceptr pointer, CUresult *result);
struct memory_info;
/* What the pointer points to; false: it is none of ours. */
bool imports_describe(CUdeviceptr pointer, struct memory_info *info);
/* The context is gone, and all that was opened for it. */
void imports_forget(CUcontext context);
/* A new agent is told what is open. */
void imports_tell(void);

/* Control thread: some pieces of what was asked for have come, or there is nothing. */
void imports_pieces(const struct mw_share *pieces);
void imports_after_fork(void);

#endif
