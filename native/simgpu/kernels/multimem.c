/* Kernels that use the addresses of multicast objects. */
#include "simgpu/kernel.h"

typedef uint64_t u64;

#define WORDS_AT_ONCE 1024u

/* multimem_count_u64(u64 *at, u64 n, u64 first): the words become first, first + 1, ... on all GPUs */
SIMGPU_KERNEL(multimem_count_u64, 8, 8, 8)
{
    u64 words[WORDS_AT_ONCE], *at = SIMGPU_PARAM(u64 *, 0), n = SIMGPU_PARAM(u64, 1),
                              first = SIMGPU_PARAM(u64, 2);
    for (u64 done = 0; done < n; done += WORDS_AT_ONCE) {
        u64 now = n - done < WORDS_AT_ONCE ? n - done : WORDS_AT_ONCE;
        for (u64 i = 0; i < now; i++) {
            words[i] = first + done + i;
        }
        launch->multimem_store(at + done, words, now);
    }
}

/* multimem_sum_u64(u64 *sums, const u64 *at, u64 n): the sums of the words of all GPUs */
SIMGPU_KERNEL(multimem_sum_u64, 8, 8, 8)
{
    launch->multimem_sum(SIMGPU_PARAM(u64 *, 0), SIMGPU_PARAM(const u64 *, 1),
                         SIMGPU_PARAM(u64, 2));
}
