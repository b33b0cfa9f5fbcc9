/* Which GPUs may use memory. */
#ifndef SIMGPU_PEER_ACCESS_H
#define SIMGPU_PEER_ACCESS_H

#include <stdint.h>

/* Whether a GPU may read, or write, all of a device range: memory that was mapped or is a pool's is open to
 * those alone that were given access, all other to every GPU, which a driver sees to. */
int sg_has_access(uint64_t address, uint64_t bytes, unsigned gpu, int write);

#endif
