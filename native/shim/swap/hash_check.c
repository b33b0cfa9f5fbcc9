#include "shim/swap/hash_check.h"

#include "shim/base/driver.h"

#define WORDS (SCAN_ROUND_BYTES / sizeof(uint32_t))
#define LINE (WORDS / 4) /* a thread's 16 words lie in four lines */
#define TRIES 3          /* threads that do not wait for each other may be right once */

__extension__ typedef unsigned __int128 product;

static uint64_t plus_times(uint64_t sum, uint64_t value, uint64_t key)
{
    return (uint64_t)((sum + (product)value * key) % SCAN_PRIME);
}

static uint64_t of_thread(const uint32_t *words, uint32_t thread, const uint64_t *keys)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < 16; i++) {
        sum = plus_times(sum, words[i / 4 * LINE + (size_t)thread * 4 + i % 4], keys[i]);
    }
    return sum;
}

/* What the first block of a chunk with these words leaves. */
static uint64_t expected(const uint32_t *words, const uint64_t *keys)
{
    uint64_t sums[SCAN_THREADS];
    for (uint32_t thread = 0; thread < SCAN_THREADS; thread++) {
        sums[thread] = of_thread(words, thread, keys);
    }
    const uint64_t *key = &keys[17]; /* behind those of the words and the rounds */
    for (uint32_t apart = SCAN_THREADS / 2; apart; apart /= 2, key++) {
        for (uint32_t thread = 0; thread < apart; thread++) {
            sums[thread] = plus_times(sums[thread], sums[thread + apart], *key);
        }
    }
    return sums[0];
}

static CUresult run(struct zero_scan *zero_scan, const struct scan_keys *keys, CUstream stream)
{
    uint32_t first = 0;
    void *params[] = {&zero_scan->page_at, &first, (void *)(uintptr_t)keys};
    zero_scan_add(zero_scan, 0, zero_scan->page_at + sizeof(struct scan_page), SCAN_ROUND_BYTES);
    CUresult result = DRIVER(cuLaunchKernel)(zero_scan->hash, 1, 1, 1, SCAN_THREADS, 1, 1, 0,
                                             stream, params, NULL);
    return result ? result : DRIVER(cuStreamSynchronize)(stream);
}

CUresult hash_check(struct zero_scan *zero_scan, const struct scan_keys *keys, CUstream stream)
{
    uint32_t *words = (uint32_t *)(void *)(zero_scan->page + 1);
    uint32_t word = 1;
    for (uint32_t i = 0; i < WORDS; i++) {
        words[i] = word = word * 1664525u + 1013904223u; /* any bytes that differ */
    }
    CUresult result = CUDA_SUCCESS;
    for (int i = 0; !result && i < TRIES; i++) {
        result = run(zero_scan, keys, stream);
        for (uint32_t h = 0; !result && h < SCAN_HASHES; h++) {
            uint64_t found = __atomic_load_n(&zero_scan->page->hash[0][0][h], __ATOMIC_RELAXED);
            result = found == expected(words, keys->of[h]) ? CUDA_SUCCESS : CUDA_ERROR_UNKNOWN;
        }
    }
    return result;
}
