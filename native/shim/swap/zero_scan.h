/* Scans chunks on the GPU: those that hold only zeros need not be copied.
 *
 * Frameworks take most of a GPU up front and write little of it. A kernel of ours reads the chunks
 * where they are, many times faster than a link could carry them. Many blocks of threads share a
 * chunk, and each leaves at its first word that is not zero; a block that did not run has found
 * nothing. Where the kernel cannot be loaded, everything counts as data.
 */
#ifndef MOIETY_SHIM_SWAP_ZERO_SCAN_H
#define MOIETY_SHIM_SWAP_ZERO_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda/cuda_abi.h"
#include "shim/swap/scan_kernels.h"

#define ZERO_SCAN_AT_ONCE 64u /* chunks in one scan */

/* Belongs to one context, and goes with it. */
struct zero_scan {
    CUfunction function;    /* NULL: it cannot scan */
    CUfunction hash;        /* NULL: it cannot hash (content_hash.h) */
    bool hopeless;          /* another attempt would fail, too */
    CUresult why;           /* the last attempt's error */
    bool hash_checked;      /* the hash kernel was tried out (hash_check.h) */
    double memory_rate;     /* bytes a second that the GPU reads; 0: the driver does not say */
    uint32_t tried_turn;    /* the device's lease_count at the last attempt; 0: there was none */
    struct scan_page *page; /* questions to the GPU and its answers, in host memory */
    CUdeviceptr page_at;
};

/* Loads the kernel into the current context, unless it is there. That takes a few milliseconds, locks of the driver
 * and some device memory: no lock is held, and it is done before memory is short. Without memory for it, it is
 * tried again in another turn. */
void zero_scan_load(struct zero_scan *zero_scan, uint32_t turn);
/* It does not work here: everything counts as data from now on. */
void zero_scan_give_up(struct zero_scan *zero_scan, CUresult why);
/* Sets the chunk of a slot of the page; the first ZERO_SCAN_AT_ONCE are those of the next scan. */
void zero_scan_add(struct zero_scan *zero_scan, uint32_t slot, CUdeviceptr at, uint64_t bytes);
/* Scans the first `count`, in stream order. */
CUresult zero_scan_run(struct zero_scan *zero_scan, uint32_t count, CUstream stream);
/* The result, once the stream is past the scan: true if the chunk holds only zeros. */
bool zero_scan_is_zero(const struct zero_scan *zero_scan, uint32_t index);

#endif
