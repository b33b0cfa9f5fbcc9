/* Host memory for what was moved out of the GPU, registered with the driver.
 *
 * It is carved out of pieces. Most of them are parts of segments that the agent made and lent to
 * this process (segments.h); where there are none, the shim maps memory of its own.
 */
#ifndef MOIETY_SHIM_ARENA_H
#define MOIETY_SHIM_ARENA_H

#include <stdbool.h>
#include <stdint.h>

/* Space for `bytes` (a multiple of 2 MiB); NULL when host memory is not to be had. Needs a current
 * context, for registering, and the caller holds contexts_lock. May wait for the agent. */
void *arena_take(uint64_t bytes);
void arena_give_back(void *at, uint64_t bytes);
/* Bytes of host memory that the arena has, used or not. */
uint64_t arena_bytes(void);
/* Adds memory that is registered already, a part of the agent's segment with this number. */
int arena_add(void *base, uint64_t bytes, uint64_t segment);
/* Whether anything is in the pieces of a segment. */
bool arena_uses(uint64_t segment);
/* Takes the pieces of a segment out of the arena, unless something is in them. */
bool arena_remove(uint64_t segment);
void arena_after_fork(void);

#endif
