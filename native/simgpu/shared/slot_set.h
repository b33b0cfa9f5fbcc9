/* Sets of slots of the process table, in shared memory: a bit for each, changed atomically without a lock. */
#ifndef SIMGPU_SLOT_SET_H
#define SIMGPU_SLOT_SET_H

#include <limits.h>
#include <stdint.h>

#define SG_NO_SLOT UINT_MAX

int sg_slots_have(const uint64_t *set, unsigned slot);
int sg_slots_empty(const uint64_t *set);
void sg_slots_add(uint64_t *set, unsigned slot);
void sg_slots_remove(uint64_t *set, unsigned slot);

/* The next slot of the set after `slot`, in a circle, and at last `slot` itself. SG_NO_SLOT: it is empty. */
unsigned sg_slots_next(const uint64_t *set, unsigned slot);
/* How many slots of the set lie between two, in a circle. */
unsigned sg_slots_between(const uint64_t *set, unsigned from, unsigned to);

#endif
