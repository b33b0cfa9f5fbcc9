/* What memory is charged with: the agent is asked before it is made, and told when it is gone.
 *
 * `flags` are MW_ALLOC_*: what kind of bytes they are, the same in the question and at the end. */
#ifndef MOIETY_SHIM_MEM_ACCOUNTING_H
#define MOIETY_SHIM_MEM_ACCOUNTING_H

#include <stdint.h>

#include "cuda/cuda_abi.h"
#include "shim/mem/device.h"

/* May this process have so many bytes more, and is there room for them? Waits for the answer, where there
 * is no allowance (credit.h), so the caller is outside the gate and holds no lock. With CUDA_SUCCESS they are counted;
 * CUDA_ERROR_OUT_OF_MEMORY otherwise. */
CUresult accounting_charge(struct device *device, uint64_t bytes, uint32_t flags);
/* They are gone, and so many of them were on the GPU. With extent_lock held. */
void accounting_release(struct device *device, uint64_t bytes, uint64_t resident, uint32_t flags);
/* What was charged as able to leave never does from now on. With extent_lock held. */
void accounting_pin(struct device *device, uint64_t bytes);
/* So many bytes more are allocated (negative: less). With extent_lock held. */
void accounting_count(struct device *device, uint64_t bytes, uint32_t flags);
/* A question was answered with yes: its bytes count from now on. For the control thread. */
void accounting_admitted(uint32_t gpu, uint64_t bytes, uint32_t flags);

#endif
