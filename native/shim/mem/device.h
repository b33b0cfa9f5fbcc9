/* The GPUs of this process: which are attached with the agent, with which contexts and limits. */
#ifndef MOIETY_SHIM_MEM_DEVICE_H
#define MOIETY_SHIM_MEM_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda/cuda_abi.h"
#include "shim/base/lock.h"
#include "wire/wire.h"

struct device {
    CUdevice ordinal;
    bool known;    /* the agent has told its limit and chunk size */
    bool attached; /* the agent has made room for a context on it */
    uint32_t gpu;  /* the agent's index */
    uint64_t total_bytes;
    uint64_t limit_bytes; /* changes at any moment: device_limit reads it */
    bool limit_together;  /* the limit holds for all processes of the workload together */
    uint64_t chunk_bytes;
    CUcontext primary;   /* the primary context, while it exists */
    CUcontext *contexts; /* all that exist; any of them can move memory */
    uint32_t context_count;
    uint32_t context_room;
    uint32_t creating;           /* threads that are about to add a context */
    uint32_t contexts_destroyed; /* what was made in a destroyed context is gone */
    uint32_t lease_count;        /* rises with each lease; scans of an earlier lease are void */
    /* All below is under extent_lock. */
    uint64_t peers; /* bits, by ordinal: devices that have access to its memory (peer_access.h) */
    uint64_t
        crossed; /* bits: devices in whose streams its memory was copied without access (peer_copy.h) */
    uint64_t allocated_bytes;
    uint64_t managed_bytes; /* of the allocated bytes: those that the driver pages */
    uint64_t pinned_bytes;  /* of the allocated bytes: those that never leave */
    uint64_t resident_bytes;
    uint64_t restore_budget;    /* may be made resident without asking the agent */
    uint64_t credit_bytes;      /* may be allocated without asking the agent (accounting.h) */
    uint64_t credit_most_bytes; /* the most credit that may be unused; 0: there is no credit */
    uint64_t credit_used_ns;    /* when credit was used or came back the last time */
};

/* Guards the list of devices and their contexts. */
extern struct lock device_lock;

/* True once this process has used two devices at a time. */
extern bool devices_several;

/* Looks the device up with the agent, without attaching; NULL when the agent refuses. */
struct device *device_look_up(CUdevice ordinal);
/* Has the agent make room for a context, which the caller creates next; then it calls device_created.
 * CUDA_SUCCESS, or the error that the program gets. */
CUresult device_attach(CUdevice ordinal, struct device **device);
void device_created(struct device *device);
/* Keeps the device attached until device_created; false: it is not attached. */
bool device_keep_attached(struct device *device);
/* The device with this ordinal, attached. */
CUresult device_of_ordinal(CUdevice ordinal, struct device **device);
/* The device with the agent's index; NULL: this process does not use it. */
struct device *device_of_gpu(uint32_t gpu);
/* The agent has changed what this process may allocate on a GPU; `together`: with the others of its workload. */
void device_set_limit(uint32_t gpu, uint64_t limit_bytes, bool together);
uint64_t device_limit(const struct device *device);
/* What other processes have of the limit now. It asks the agent; the caller holds no lock. */
uint64_t device_limit_beside(const struct device *device);
/* How many contexts this process has destroyed, on all devices. */
uint32_t device_contexts_destroyed(void);
/* The next attached device after this one; NULL starts and ends the loop. */
struct device *device_next(const struct device *device);

/* Detaches a device on which there is no context any more, none is being created, and no memory is
 * allocated; `detaching` is called before the agent is told. */
void device_detach_unused(struct device *device, void (*detaching)(struct device *device));
/* What a new agent is told of this process' part of the device. */
void device_tell(const struct device *device, struct mw_attach *state);
void device_after_fork(void);

#endif
