/* What memory is charged with: the agent is asked before it is made, and told when it is gone.
 *
 * `flags` are MW_ALLOC_*: what kind of bytes they are, the same in the question and at the end. */
#ifndef MOIETY_SHIM_CHARGE_H
#define MOIETY_SHIM_CHARGE_H

#include <stdint.h>

#include "cuda/cuda_abi.h"
#include "shim/devices.h"

/* May this process have so many bytes more, and is there room for them? Waits for the answer, where there
 * is no allowance (allowance.h), so the caller is outside the gate and holds no lock. With CUDA_SUCCESS they are counted;
 * CUDA_ERROR_OUT_OF_MEMORY otherwise. */
CUresult charge_ask(struct device *device, uint64_t bytes, uint32_t flags);
/* They are gone, and so many of them were on the GPU. With blocks_lock held. */
void charge_drop(struct device *device, uint64_t bytes, uint64_t resident, uint32_t flags);
/* What was charged as able to leave never does from now on. With blocks_lock held. */
void charge_keep(struct device *device, uint64_t bytes);
/* So many bytes more are allocated (negative: less). With blocks_lock held. */
void charge_count(struct device *device, uint64_t bytes, uint32_t flags);
/* A question was answered with yes: its bytes count from now on. For the control thread. */
void charge_admitted(uint32_t gpu, uint64_t bytes, uint32_t flags);

#endif
