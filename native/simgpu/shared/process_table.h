/* The processes, and what each holds. The caller holds the state's lock. */
#ifndef SIMGPU_PROCESS_TABLE_H
#define SIMGPU_PROCESS_TABLE_H

#include "simgpu/shared/state_layout.h"

/* Frees the slot and all that it holds. */
void sg_process_free(struct sg_process *process);

/* Frees the slots of processes that have ended. */
void sg_reap(void);
uint64_t sg_used_bytes(unsigned device);
/* Makes room for `bytes`: frees the slots of ended processes and evicts managed memory. Returns 0 or
 * -ENOMEM. */
int sg_make_room(unsigned device, uint64_t bytes, uint64_t *evicted_bytes);
/* The bytes that one process holds on a device, shared memory included. */
uint64_t sg_process_bytes(const struct sg_process *process, unsigned device);

/* Enters a granule of this process that moved to the device. Returns its entry, or 0 if the table is full. */
uint32_t sg_granule_in(unsigned device, uint64_t address);
void sg_granule_out(unsigned device, uint32_t entry);

/* Notes that this process holds, or no longer holds, a piece of shared memory. */
int sg_export_hold(uint64_t inode, uint64_t offset, uint64_t bytes, unsigned device, int *first);
/* The serial of the export there, or 0. */
uint32_t sg_export_serial(uint64_t inode, uint64_t offset);
int sg_export_drop(uint64_t inode, uint64_t offset); /* returns 1 if no process holds it any more */

/* Rebuilds the list of granules that a dying process may have left half changed. */
void sg_relink_granules(unsigned device);

#endif
