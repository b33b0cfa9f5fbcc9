/* What kernels do at the addresses of multicast objects, as the instructions multimem.st and multimem.ld_reduce. */
#ifndef SIMGPU_MULTIMEM_H
#define SIMGPU_MULTIMEM_H

#include <stdint.h>

/* Stores words to the memory of all GPUs, or reads the sums of theirs. Where not all of it is bound, or nothing is
 * mapped, the launch ends with CUDA_ERROR_ILLEGAL_ADDRESS. */
void sg_multimem_store(uint64_t *at, const uint64_t *words, uint64_t count);
void sg_multimem_sum(uint64_t *sums, const uint64_t *at, uint64_t count);

#endif
