/* Scans chunks on the GPU: those that hold only zeros need not be copied.
 *
 * Frameworks take most of a GPU up front and write little of it. A kernel of ours reads the chunks
 * where they are, hundreds of times faster than a link could carry them, and leaves each at the
 * first word that is not zero. Where the kernel cannot be loaded, everything counts as data.
 */
#ifndef MOIETY_SHIM_SWAP_ZERO_SCAN_H
#define MOIETY_SHIM_SWAP_ZERO_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda/cuda_abi.h"

#define ZERO_SCAN_AT_ONCE 64u /* chunks in one scan */

/* Belongs to one context, and goes with it. */
struct zero_scan {
    bool tried;
    CUfunction function;         /* NULL: it cannot scan */
    struct zero_scan_page *page; /* questions to the GPU and its answers, in host memory */
    CUdeviceptr page_at;
};

/* True if it can scan. The first time it loads the kernel into the current context: not while
 * anything is captured or this process has work on the GPU, since that takes a few milliseconds
 * and some device memory. */
bool zero_scan_can_run(struct zero_scan *zero_scan);
/* Sets the `index`th of the chunks of the next scan. */
void zero_scan_add(struct zero_scan *zero_scan, uint32_t index, CUdeviceptr at, uint64_t bytes);
/* Scans the first `count`, in stream order. */
CUresult zero_scan_run(struct zero_scan *zero_scan, uint32_t count, CUstream stream);
/* The result, once the stream is past the scan: true if the chunk holds only zeros. */
bool zero_scan_is_zero(const struct zero_scan *zero_scan, uint32_t index);

#endif
