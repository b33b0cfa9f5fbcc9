/* Tries the hash kernel out before its answers count: it hashes known bytes, and the host does, too.
 *
 * A kernel that computes something else would have unchanged memory copied, or, worse, have changed memory pass for
 * unchanged. One block and one round show the arithmetic, all keys but that of the rounds, and the sums of the threads.
 */
#ifndef MOIETY_SHIM_SWAP_HASH_CHECK_H
#define MOIETY_SHIM_SWAP_HASH_CHECK_H

#include "shim/swap/zero_scan.h"

/* CUDA_SUCCESS, the driver's error, or CUDA_ERROR_UNKNOWN for a wrong hash. Uses the page's first slot, so no scan is under
 * way, and waits for the stream. */
CUresult hash_check(struct zero_scan *zero_scan, const struct scan_keys *keys, CUstream stream);

#endif
