/* Where host memory for an eviction comes from.
 *
 * Most of it is parts of segments that the agent made and lent to this process (host_segments.h). Where
 * there are none, the shim maps memory of its own. All of it is given back to the arena (host_arena.h).
 */
#ifndef MOIETY_SHIM_SWAP_HOST_MEMORY_H
#define MOIETY_SHIM_SWAP_HOST_MEMORY_H

#include <stdint.h>

/* Space for `bytes` (a multiple of 2 MiB); NULL: there is no host memory. Needs a current
 * context, for registering, and the caller holds contexts_lock. May wait for the agent. */
void *host_memory_take(uint64_t bytes);
/* What an agent said of itself in its welcome: MW_WELCOME_ARENA. */
void host_memory_set_agent(uint32_t flags);

#endif
