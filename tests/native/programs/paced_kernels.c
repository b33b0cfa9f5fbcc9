/* A kernel that takes GPU time and counts itself as it begins. */
#include "simgpu/kernel.h"

/* tick(u64 us, u64 *begun) */
extern const struct simgpu_kernel simgpu_kernel_tick;

static void tick_body(const struct simgpu_launch *launch, void **params)
{
    (void)launch;
    __atomic_fetch_add(SIMGPU_PARAM(uint64_t *, 1), 1, __ATOMIC_SEQ_CST);
}

static uint64_t tick_time(const struct simgpu_launch *launch, void **params)
{
    (void)launch;
    return SIMGPU_PARAM(uint64_t, 0) * 1000;
}

__attribute__((visibility("default"))) const struct simgpu_kernel simgpu_kernel_tick = {
    .abi = SIMGPU_KERNEL_ABI,
    .params = 2,
    .body = tick_body,
    .time_ns = tick_time,
    .size = {8, 8},
};
