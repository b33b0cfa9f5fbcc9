/* Kernels that decide what a graph does next. */
#include "simgpu/kernel.h"

typedef uint64_t u64;
typedef uint32_t u32;

/* set_condition(u64 handle, u32 value) */
SIMGPU_KERNEL(set_condition, 8, 4)
{
    launch->set_conditional(SIMGPU_PARAM(u64, 0), SIMGPU_PARAM(u32, 1));
}

/* count_down(u32 *word, u64 handle): subtracts 1 from the word; the condition is the result. */
SIMGPU_KERNEL(count_down, 8, 8)
{
    u32 *word = SIMGPU_PARAM(u32 *, 0);
    *word -= *word != 0;
    launch->set_conditional(SIMGPU_PARAM(u64, 1), *word);
}

/* add_u32(u32 *word, u32 value) */
SIMGPU_KERNEL(add_u32, 8, 4) { *SIMGPU_PARAM(u32 *, 0) += SIMGPU_PARAM(u32, 1); }
