#include "shim/swap/content_hash.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "shim/base/driver.h"
#include "shim/base/message.h"
#include "shim/swap/hash_check.h"

/* Of this process; only the control thread draws and uses them. */
static struct scan_keys keys;
static uint64_t block_keys[SCAN_HASHES][SCAN_BLOCKS];
static bool drawn;

/* Random numbers below SCAN_PRIME. False: the system has no random numbers. */
static bool draw(uint64_t *numbers, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        do {
            if (syscall(SYS_getrandom, &numbers[i], sizeof(numbers[i]), 0) !=
                (long)sizeof(numbers[i])) {
                return false;
            }
            numbers[i] >>= 3;
        } while (numbers[i] >= SCAN_PRIME);
    }
    return true;
}

/* Says once that everything is copied, and why. */
static void tell(const char *why, CUresult result)
{
    static atomic_bool said;
    message_once(&said, "nothing is lost; moving memory takes longer",
                 "%s (error %d): memory that did not change is copied as well", why, (int)result);
}

void content_hash_check(struct zero_scan *zero_scan, CUstream stream)
{
    if (content_hash_is_possible(zero_scan) && !zero_scan->hash_checked) {
        zero_scan->hash_checked = true;
        CUresult result = hash_check(zero_scan, &keys, stream);
        if (result != CUDA_SUCCESS) {
            tell("the kernel that finds changes does not compute what it should", result);
            zero_scan->hash = NULL;
        }
    }
    if (!zero_scan->hash && (zero_scan->function || zero_scan->hopeless)) {
        tell("the kernels that find changes cannot be loaded or did not start", zero_scan->why);
    }
}

bool content_hash_is_possible(const struct zero_scan *zero_scan)
{
    if (zero_scan->hash && !drawn) {
        drawn = draw(&keys.of[0][0], SCAN_HASHES * SCAN_KEYS) &&
                draw(&block_keys[0][0], SCAN_HASHES * SCAN_BLOCKS);
    }
    return zero_scan->hash && drawn;
}

CUresult content_hash_run(struct zero_scan *zero_scan, uint32_t first, uint32_t count,
                          CUstream stream)
{
    void *params[] = {&zero_scan->page_at, &first, &keys};
    CUresult result = DRIVER(cuLaunchKernel)(zero_scan->hash, count, SCAN_BLOCKS, 1, SCAN_THREADS,
                                             1, 1, 0, stream, params, NULL);
    if (result != CUDA_SUCCESS) {
        tell("the kernel that finds changes did not start", result);
        zero_scan->hash = NULL;
    }
    return result;
}

__extension__ typedef unsigned __int128 product;

bool content_hash_get(const struct zero_scan *zero_scan, uint32_t slot, struct content_hash *hash)
{
    for (uint32_t h = 0; h < SCAN_HASHES; h++) {
        uint64_t sum = 0;
        for (uint32_t block = 0; block < SCAN_BLOCKS; block++) {
            uint64_t part =
                __atomic_load_n(&zero_scan->page->hash[slot][block][h], __ATOMIC_RELAXED);
            if (part >= SCAN_PRIME) {
                return false;
            }
            sum = (uint64_t)((sum + (product)part * block_keys[h][block]) % SCAN_PRIME);
        }
        hash->of[h] = sum;
    }
    return true;
}
