/* The kernels of the demo and the tests: 64-bit words whose every value can be foretold. */
#include "simgpu/kernel.h"

typedef uint64_t u64;

static u64 splitmix64(u64 x)
{
    x += 0x9e3779b97f4a7c15ull;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
    return x ^ (x >> 31);
}

static u64 step(u64 word, u64 k, u64 i) { return word * 6364136223846793005ull + k + i; }

/* fill_u64(u64 *p, u64 n, u64 seed) */
SIMGPU_KERNEL(fill_u64, 8, 8, 8)
{
    u64 *p = SIMGPU_PARAM(u64 *, 0), n = SIMGPU_PARAM(u64, 1), seed = SIMGPU_PARAM(u64, 2);
    for (u64 i = 0; i < n; i++) {
        p[i] = splitmix64(seed + i);
    }
}

/* step_u64(u64 *p, u64 n, u64 k) */
SIMGPU_KERNEL(step_u64, 8, 8, 8)
{
    u64 *p = SIMGPU_PARAM(u64 *, 0), n = SIMGPU_PARAM(u64, 1), k = SIMGPU_PARAM(u64, 2);
    for (u64 i = 0; i < n; i++) {
        p[i] = step(p[i], k, i);
    }
}

/* check_u64(const u64 *p, u64 n, u64 seed, const u64 *ks, u64 nks, u64 *errors): what fill_u64 and one
 * step_u64 for each of ks must have left */
SIMGPU_KERNEL(check_u64, 8, 8, 8, 8, 8, 8)
{
    const u64 *p = SIMGPU_PARAM(const u64 *, 0), *ks = SIMGPU_PARAM(const u64 *, 3);
    u64 n = SIMGPU_PARAM(u64, 1), seed = SIMGPU_PARAM(u64, 2), nks = SIMGPU_PARAM(u64, 4),
        errors = 0;
    for (u64 i = 0; i < n; i++) {
        u64 word = splitmix64(seed + i);
        for (u64 j = 0; j < nks; j++) {
            word = step(word, ks[j], i);
        }
        errors += word != p[i];
    }
    *SIMGPU_PARAM(u64 *, 5) += errors;
}

/* add_u64(u64 *dst, const u64 *src, u64 n) */
SIMGPU_KERNEL(add_u64, 8, 8, 8)
{
    u64 *dst = SIMGPU_PARAM(u64 *, 0), n = SIMGPU_PARAM(u64, 2);
    const u64 *src = SIMGPU_PARAM(const u64 *, 1);
    for (u64 i = 0; i < n; i++) {
        dst[i] += src[i];
    }
}

/* touch_u64(u64 *p, u64 n, u64 stride) */
SIMGPU_KERNEL(touch_u64, 8, 8, 8)
{
    u64 *p = SIMGPU_PARAM(u64 *, 0), n = SIMGPU_PARAM(u64, 1), stride = SIMGPU_PARAM(u64, 2);
    for (u64 i = 0; i < n; i += stride ? stride : 1) {
        p[i]++;
    }
}

/* spin_us(u64 us) */
SIMGPU_TIMED_KERNEL(spin_us, 8) { return SIMGPU_PARAM(u64, 0) * 1000; }

/* nop() */
SIMGPU_KERNEL(nop) {}
