/* What the shim's own kernels do (native/shim/swap/scan_kernels.h has them for GPUs, in PTX). A page that the
 * host shares names chunks; in the grid, x counts chunks and y the blocks of one chunk. */
#include <string.h>

#include "simgpu/kernel.h"

#define CHUNKS 72u
#define BLOCKS 32u
#define ROUND (64u << 10)                 /* what a block reads at a time */
#define STRIDE ((uint64_t)BLOCKS * ROUND) /* from one round of a block to its next */

struct page {
    struct {
        uint64_t from, to;
    } chunk[CHUNKS];
    uint32_t verdict[CHUNKS][BLOCKS];
    uint64_t hash[CHUNKS][BLOCKS][2];
};

enum { ONLY_ZEROS = 1, DATA = 2 };

static int is_zero(const char *at, uint64_t bytes)
{
    static const char zeros[64]; /* each byte is like the one 64 before it */
    return memcmp(at, zeros, sizeof(zeros)) == 0 &&
           memcmp(at + sizeof(zeros), at, bytes - sizeof(zeros)) == 0;
}

static uint32_t look(const struct page *page, uint32_t chunk, uint32_t block)
{
    uint64_t to = page->chunk[chunk].to;
    for (uint64_t at = page->chunk[chunk].from + (uint64_t)block * ROUND; at < to; at += STRIDE) {
        if (!is_zero((const char *)(uintptr_t)at, ROUND)) {
            return DATA;
        }
    }
    return ONLY_ZEROS;
}

static uint64_t reading_ns(const struct simgpu_launch *launch, uint64_t bytes)
{
    return bytes * 1000 / (launch->memory_bytes_per_s / 1000000 + 1);
}

/* A block that finds a word has read little. */
static uint64_t find_zeros_ns(const struct simgpu_launch *launch, void **params)
{
    const struct page *page = SIMGPU_PARAM(const struct page *, 0);
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < launch->grid[0] && i < CHUNKS; i++) {
        for (uint32_t block = 0; block < launch->grid[1] && block < BLOCKS; block++) {
            uint64_t all = page->chunk[i].to - page->chunk[i].from;
            bytes += page->verdict[i][block] == ONLY_ZEROS ? all / BLOCKS : ROUND;
        }
    }
    return reading_ns(launch, bytes);
}

/* moiety_find_zeros(struct page *page) */
SIMGPU_KERNEL_TAKING(find_zeros_ns, moiety_find_zeros, 8)
{
    struct page *page = SIMGPU_PARAM(struct page *, 0);
    for (uint32_t i = 0; i < launch->grid[0] && i < CHUNKS; i++) {
        for (uint32_t block = 0; block < launch->grid[1] && block < BLOCKS; block++) {
            __atomic_store_n(&page->verdict[i][block], look(page, i, block), __ATOMIC_RELEASE);
        }
    }
}

/* ---- hashing: two numbers modulo PRIME ---- */

#define PRIME ((1ull << 61) - 1)
#define THREADS 1024u
#define WORDS 16u /* that a thread reads in a round */
#define KEYS 27u

struct keys {
    uint64_t of[2][KEYS]; /* for the words, the rounds, and adding up threads */
};

__extension__ typedef unsigned __int128 u128;

static uint64_t reduce(u128 value)
{
    uint64_t sum = ((uint64_t)value & PRIME) + (uint64_t)(value >> 61);
    return sum >= PRIME ? sum - PRIME : sum;
}

static uint64_t plus(uint64_t a, uint64_t b) { return a + b >= PRIME ? a + b - PRIME : a + b; }

/* The words of a thread lie in four lines of 16 bytes, a quarter of a round apart. */
static void gather(uint64_t words[WORDS], const char *round, unsigned thread)
{
    for (unsigned line = 0; line < 4; line++) {
        uint32_t four[4];
        memcpy(four, round + (size_t)line * (ROUND / 4) + thread * sizeof(four), sizeof(four));
        for (unsigned i = 0; i < 4; i++) {
            words[line * 4 + i] = four[i];
        }
    }
}

static void hash_round(uint64_t sums[2][THREADS], const struct keys *keys, const char *round)
{
    for (unsigned thread = 0; thread < THREADS; thread++) {
        uint64_t words[WORDS];
        gather(words, round, thread);
        for (unsigned h = 0; h < 2; h++) {
            u128 sum = 0;
            for (unsigned i = 0; i < WORDS; i++) {
                sum += (u128)words[i] * keys->of[h][i];
            }
            uint64_t before = reduce((u128)sums[h][thread] * keys->of[h][WORDS]);
            sums[h][thread] = plus(before, reduce(sum));
        }
    }
}

static void hash_part(struct page *page, const struct keys *keys, uint32_t chunk, uint32_t block)
{
    uint64_t sums[2][THREADS] = {{0}};
    uint64_t to = page->chunk[chunk].to;
    uint64_t at = page->chunk[chunk].from + (uint64_t)block * ROUND;
    for (; at < to && page->verdict[chunk][block] != ONLY_ZEROS; at += STRIDE) {
        hash_round(sums, keys, (const char *)(uintptr_t)at);
    }
    for (unsigned h = 0; h < 2; h++) {
        const uint64_t *key = &keys->of[h][WORDS + 1];
        for (unsigned apart = THREADS / 2; apart; apart /= 2, key++) {
            for (unsigned thread = 0; thread < apart; thread++) {
                uint64_t other = reduce((u128)sums[h][thread + apart] * *key);
                sums[h][thread] = plus(sums[h][thread], other);
            }
        }
        page->hash[chunk][block][h] = sums[h][0];
    }
}

static uint64_t hash_ns(const struct simgpu_launch *launch, void **params)
{
    const struct page *page = SIMGPU_PARAM(const struct page *, 0);
    uint32_t first = SIMGPU_PARAM(uint32_t, 1);
    uint64_t bytes = 0;
    for (uint32_t i = first; i < first + launch->grid[0] && i < CHUNKS; i++) {
        for (uint32_t block = 0; block < launch->grid[1] && block < BLOCKS; block++) {
            uint64_t all = page->chunk[i].to - page->chunk[i].from;
            bytes += page->verdict[i][block] == ONLY_ZEROS ? 0 : all / BLOCKS;
        }
    }
    return reading_ns(launch, bytes);
}

/* moiety_hash(struct page *page, u32 first, struct keys keys) */
SIMGPU_KERNEL_TAKING(hash_ns, moiety_hash, 8, 4, sizeof(struct keys))
{
    struct page *page = SIMGPU_PARAM(struct page *, 0);
    uint32_t first = SIMGPU_PARAM(uint32_t, 1);
    const struct keys *keys = params[2];
    for (uint32_t i = first; i < first + launch->grid[0] && i < CHUNKS; i++) {
        for (uint32_t block = 0; block < launch->grid[1] && block < BLOCKS; block++) {
            hash_part(page, keys, i, block);
        }
    }
}
