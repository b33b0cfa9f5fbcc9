/* What the shim's own kernel does (native/shim/swap/zero_scan.c has it for GPUs, in PTX): one block for each
 * chunk of a page that the host shares. */
#include <string.h>

#include "simgpu/kernel.h"

#define CHUNKS 64
#define STEP (64u << 10)

struct page {
    struct {
        uint64_t from, to;
    } chunk[CHUNKS];
    uint32_t verdict[CHUNKS];
};

static int is_zero(const char *from, const char *to)
{
    static const char zeros[64];
    if (memcmp(from, zeros, sizeof(zeros)) != 0) {
        return 0;
    }
    for (; from < to; from += STEP) { /* each byte is like the one 64 before it */
        uint64_t bytes = (uint64_t)(to - from) < STEP ? (uint64_t)(to - from) : STEP;
        if (memcmp(from, zeros, sizeof(zeros)) != 0 ||
            memcmp(from + sizeof(zeros), from, bytes - sizeof(zeros)) != 0) {
            return 0;
        }
    }
    return 1;
}

/* moiety_find_zeros(struct page *page) */
SIMGPU_KERNEL(moiety_find_zeros, 8)
{
    struct page *page = SIMGPU_PARAM(struct page *, 0);
    for (uint32_t i = 0; i < launch->grid[0] && i < CHUNKS; i++) {
        const char *from = (const char *)(uintptr_t)page->chunk[i].from;
        const char *to = (const char *)(uintptr_t)page->chunk[i].to;
        __atomic_store_n(&page->verdict[i], is_zero(from, to) ? 1 : 2, __ATOMIC_RELEASE);
    }
}
