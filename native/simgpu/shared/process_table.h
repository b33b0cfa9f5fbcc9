/* The processes, and what each holds. All but sg_process_pid is called with the state's lock held. */
#ifndef SIMGPU_PROCESS_TABLE_H
#define SIMGPU_PROCESS_TABLE_H

#include "simgpu/shared/state_layout.h"

/* Frees the slot and all that it holds. */
void sg_process_free(struct sg_process *process);

/* Forgets processes that are gone. */
void sg_reap(void);
uint64_t sg_used_bytes(unsigned device);
/* Room for so many bytes beside what is used, after forgetting the dead and moving managed memory out. */
int sg_make_room(unsigned device, uint64_t bytes, uint64_t *evicted_bytes);
/* What one process holds on a device, shared memory included. */
uint64_t sg_process_bytes(const struct sg_process *process, unsigned device);

/* Managed memory: a granule of this process came to the device. Returns its entry, 0 when the table is full. */
uint32_t sg_granule_in(unsigned device, uint64_t address);
void sg_granule_out(unsigned device, uint32_t entry);

/* Shared memory: this process holds it too, or no longer. */
int sg_export_hold(uint64_t inode, uint64_t offset, uint64_t bytes, unsigned device, int *first);
/* 0: nobody shares anything there. */
uint32_t sg_export_serial(uint64_t inode, uint64_t offset);
int sg_export_drop(uint64_t inode, uint64_t offset); /* 1 when nobody holds it any more */

/* Links that a dying process left half changed are made anew from the entries. */
void sg_relink_granules(unsigned device);

#endif
