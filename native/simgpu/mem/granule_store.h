/* The granule store: the host's memory that holds the bytes of this process's device memory, in one sparse
 * memfd.
 *
 * A page costs host memory from its first touch on, and making it costs more than copying 4 KiB; a real
 * GPU's memory is always there. So freed memory keeps its pages, up to the profile's `keep` for all
 * processes together, and is allocated first the next time. A process never takes more of the host than it
 * did at its peak, and no other process can read what it left.
 *
 * The whole file is mapped once, at its home. Mapping a part elsewhere moves its page tables there, and
 * unmapping moves them back, so that no page faults twice.
 */
#ifndef SIMGPU_GRANULE_STORE_H
#define SIMGPU_GRANULE_STORE_H

#include <stdint.h>

#include "cuda/cuda_calls.h"

/* Allocates a part of the file. New memory holds zeros. Of memory that this process had before, only the
 * beginning of each page is cleared. With MOIETY_SIMGPU_POISON=1 all of it holds 0xA5. */
CUresult sg_granule_store_alloc(unsigned gpu, uint64_t bytes, uint64_t *offset);
void sg_granule_store_free(unsigned gpu, uint64_t offset, uint64_t bytes);

/* The file, once something was allocated. */
int sg_granule_store_file(void);
uint64_t sg_granule_store_inode(void);

/* Maps a part at an address, with the access that it has at home. Returns 0, or -1 if this kernel cannot do
 * that. */
int sg_granule_store_map(uint64_t offset, uint64_t address, uint64_t bytes);
/* Moves the page tables of a part back home. The caller maps something else at the address. */
void sg_granule_store_unmap(uint64_t offset, uint64_t address, uint64_t bytes);

#endif
