/* Host memory for what was moved out of the GPU, registered with the driver and carved out of pieces. */
#ifndef MOIETY_SHIM_SWAP_HOST_ARENA_H
#define MOIETY_SHIM_SWAP_HOST_ARENA_H

#include <stdbool.h>
#include <stdint.h>

/* Space for `bytes` (a multiple of 2 MiB); NULL: there is none in the pieces that it has. */
void *host_arena_take(uint64_t bytes);
void host_arena_give_back(void *at, uint64_t bytes);
/* Bytes of host memory that the arena has, used or not. */
uint64_t host_arena_bytes(void);
/* From now on *at says how many bytes are taken and not spare. */
void host_arena_publish(uint64_t *at);
/* Adds memory that is registered already, a part of the agent's segment with this number. */
int host_arena_add(void *base, uint64_t bytes, uint64_t segment);
/* True if memory of a segment is in use. */
bool host_arena_uses(uint64_t segment);
/* Takes the pieces of a segment out of the arena, unless they are in use. */
bool host_arena_remove(uint64_t segment);
/* Memory that was taken can be given back at any time (`spare`), or is needed. */
void host_arena_set_spare(void *at, uint64_t bytes, bool spare);
bool host_arena_is_spare(const void *at);
/* Where `bytes` in one piece would be free if spare memory were given back; NULL: nowhere. */
const unsigned char *host_arena_find_spare(uint64_t bytes);
/* True if some of a segment is in use, and all of that is spare. */
bool host_arena_is_all_spare(uint64_t segment);
/* Contexts are gone, and maybe the registrations that were made in them. */
void host_arena_lose_registrations(void);
/* The piece that `at` lies in, if it has to be registered again; NULL: it has not. The caller does so. */
void *host_arena_take_lost(const void *at, uint64_t *bytes);
void host_arena_after_fork(void);

#endif
