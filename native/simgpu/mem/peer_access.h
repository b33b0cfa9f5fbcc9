/* Which GPUs may access memory. */
#ifndef SIMGPU_PEER_ACCESS_H
#define SIMGPU_PEER_ACCESS_H

#include <stdint.h>

/* Returns whether a GPU may read or write all of a device range. Mapped memory and pools need
 * cuMemSetAccess or cuMemPoolSetAccess; every GPU may access all other device memory. */
int sg_has_access(uint64_t address, uint64_t bytes, unsigned gpu, int write);

#endif
