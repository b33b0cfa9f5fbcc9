/* Host memory for what was moved out of the GPU: registered with the driver, in large pieces. */
#ifndef MOIETY_SHIM_ARENA_H
#define MOIETY_SHIM_ARENA_H

#include <stdint.h>

/* Space for `bytes` (a multiple of 2 MiB); NULL when host memory is not to be had.
 * Needs a current context, for registering. The caller serialises (memory.c's lock). */
void *arena_take(uint64_t bytes);
void arena_give_back(void *at, uint64_t bytes);
/* Bytes of host memory that the arena has, used or not. */
uint64_t arena_bytes(void);
void arena_after_fork(void);

#endif
