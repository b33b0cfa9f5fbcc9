/* Kernels that spin until another stream, process or GPU writes. */
#include "simgpu/kernel.h"

typedef uint64_t u64;
typedef uint32_t u32;

static u32 load(const u32 *word) { return __atomic_load_n(word, __ATOMIC_ACQUIRE); }

static int has_reached(u32 now, u32 value) { return (int32_t)(now - value) >= 0; } /* in a circle */

/* await_u32(const u32 *word, u32 value, u64 most_us, u32 *gave_up): until the word is at least that;
 * most_us 0: for ever. After so long it ends all the same, and counts that in gave_up, if not NULL. */
SIMGPU_SPINNING_KERNEL(await_u32, 8, 4, 8, 8)
{
    u64 most_us = SIMGPU_PARAM(u64, 2);
    u32 *gave_up = SIMGPU_PARAM(u32 *, 3);
    if (has_reached(load(SIMGPU_PARAM(const u32 *, 0)), SIMGPU_PARAM(u32, 1))) {
        return 1;
    }
    if (!most_us || spun_ns < most_us * 1000) {
        return 0;
    }
    if (gave_up) {
        __atomic_fetch_add(gave_up, 1, __ATOMIC_RELAXED);
    }
    return 1;
}

/* signal_u32(u32 *word, u32 value) */
SIMGPU_KERNEL(signal_u32, 8, 4)
{
    __atomic_store_n(SIMGPU_PARAM(u32 *, 0), SIMGPU_PARAM(u32, 1), __ATOMIC_RELEASE);
}

/* all_reduce_u64(u32 *flags, u64 *boards, u64 *data, u64 n, u32 rank, u32 ranks, u32 round): every
 * process launches it once for each round, from 1 on, and data[i] becomes the sum of all the
 * processes' data[i]. Both flags (one for each rank) and boards (2 x ranks x n) are shared by all;
 * flags begin at 0. It ends when the kernels of all others have begun, so a board is written to
 * again only after all processes have read it: all of them took part in the round between. */
SIMGPU_SPINNING_KERNEL(all_reduce_u64, 8, 8, 8, 8, 4, 4, 4)
{
    u32 *flags = SIMGPU_PARAM(u32 *, 0);
    u64 *data = SIMGPU_PARAM(u64 *, 2), n = SIMGPU_PARAM(u64, 3);
    u32 rank = SIMGPU_PARAM(u32, 4), ranks = SIMGPU_PARAM(u32, 5), round = SIMGPU_PARAM(u32, 6);
    u64 *board = SIMGPU_PARAM(u64 *, 1) + (u64)(round & 1) * ranks * n;
    if (spun_ns == 0) {
        for (u64 i = 0; i < n; i++) {
            board[rank * n + i] = data[i];
        }
        __atomic_store_n(&flags[rank], round, __ATOMIC_RELEASE);
    }
    for (u32 other = 0; other < ranks; other++) {
        if (!has_reached(load(&flags[other]), round)) {
            return 0;
        }
    }
    for (u64 i = 0; i < n; i++) {
        data[i] = 0;
        for (u32 other = 0; other < ranks; other++) {
            data[i] += board[other * n + i];
        }
    }
    return 1;
}
