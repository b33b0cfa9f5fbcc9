/* Hashes of chunks, computed on the GPU by the kernel beside the zero scan's.
 *
 * A hash is two numbers modulo p = 2^61 - 1, each with random keys of its own, which each process draws for itself.
 * Two different contents of a chunk with R rounds for each block (one for each 2 MiB) have the same hash with a
 * probability of at most ((R + 12) / p)^2: 2^-111 for a chunk of 64 MiB, and 2^-91 for one of 80 GB. The sum of
 * words times keys is 0 for a difference with probability 1/p; so is that of the blocks; the polynomial of the
 * rounds has at most R - 1 zeros; and the threads are added up with ten keys.
 */
#ifndef MOIETY_SHIM_SWAP_CONTENT_HASH_H
#define MOIETY_SHIM_SWAP_CONTENT_HASH_H

#include <stdbool.h>
#include <stdint.h>

#include "shim/mem/chunk.h"
#include "shim/swap/zero_scan.h"

/* After zero_scan_load or zero_scan_give_up: tries the kernel out, in a stream, and tells the user once if chunks cannot
 * be hashed. */
void content_hash_check(struct zero_scan *zero_scan, CUstream stream);
/* True if chunks can be hashed in this context now. */
bool content_hash_is_possible(const struct zero_scan *zero_scan);
/* Hashes the chunks in `count` slots of the page from `first` on, in stream order. An error means that chunks are
 * not hashed any more in this context. */
CUresult content_hash_run(struct zero_scan *zero_scan, uint32_t first, uint32_t count,
                          CUstream stream);
/* The hash of a slot, once the stream is past it. False: its kernel has not run. */
bool content_hash_get(const struct zero_scan *zero_scan, uint32_t slot, struct content_hash *hash);

#endif
