/* The host's memory that stands for the device memory of this process: one sparse memfd.
 *
 * A page costs host memory from its first touch on, and making it costs more than copying
 * 4 KiB. A real GPU's memory is always there. So what is freed keeps its pages, up to the
 * profile's `keep` for all processes together, and is taken first when memory is wanted
 * again: a process never takes more of the host than it did at its peak, and what it left
 * there nobody else can see.
 *
 * The whole file is mapped once, at its home. Whoever maps a part elsewhere is lent the page
 * tables with it and returns them later, so nothing faults twice.
 */
#ifndef SIMGPU_GRANULE_STORE_H
#define SIMGPU_GRANULE_STORE_H

#include <stdint.h>

#include "cuda/cuda_calls.h"

/* Where in the file. New memory holds zeros; in memory that this process had before, only the
 * beginning of each page does. With MOIETY_SIMGPU_POISON=1 all of it holds 0xA5. */
CUresult sg_granule_store_alloc(unsigned gpu, uint64_t bytes, uint64_t *offset);
void sg_granule_store_free(unsigned gpu, uint64_t offset, uint64_t bytes);

/* The file, once something was taken. */
int sg_granule_store_file(void);
uint64_t sg_granule_store_inode(void);

/* Maps a part, with whatever access it has at home; 0, or -1 when this kernel cannot do that. */
int sg_granule_store_map(uint64_t offset, uint64_t address, uint64_t bytes);
/* What is mapped there may go; the caller puts something else in its place. */
void sg_granule_store_unmap(uint64_t offset, uint64_t address, uint64_t bytes);

#endif
