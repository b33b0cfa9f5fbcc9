/* The GPUs of this process: which are attached with the agent, with which contexts and limits. */
#ifndef MOIETY_SHIM_MEM_DEVICE_H
#define MOIETY_SHIM_MEM_DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda/cuda_abi.h"
#include "shim/base/lock.h"
#include "wire/wire.h"

#define CONTEXTS_MAX 64

struct device {
    CUdevice ordinal;
    bool known;    /* the agent told limit and chunk */
    bool attached; /* and made room for a context */
    uint32_t gpu;  /* the agent's index */
    uint64_t total_bytes;
    uint64_t limit_bytes; /* changes at any moment: read it with device_limit */
    uint64_t chunk_bytes;
    CUcontext primary;                /* the primary one, while it exists */
    CUcontext contexts[CONTEXTS_MAX]; /* those that exist; any of them can move memory */
    uint32_t context_count;
    uint32_t creating;           /* threads that are about to add one */
    uint32_t contexts_destroyed; /* contexts that went: what was made in one of them is gone */
    uint32_t lease_count; /* counts leases: what was known of the memory's content before is void */
    /* The next ten are under extent_lock. */
    uint64_t peers;   /* bits, by ordinal: devices that may use its memory (peer_access.h), */
    uint64_t crossed; /* and those in whose streams it was copied without (peer_copy.h) */
    uint64_t allocated_bytes;
    uint64_t managed_bytes; /* those of them that the driver pages */
    uint64_t pinned_bytes;  /* those of them that can never leave */
    uint64_t resident_bytes;
    uint64_t restore_budget;    /* may be made resident without asking */
    uint64_t credit_bytes;      /* may be allocated without asking (accounting.h) */
    uint64_t credit_most_bytes; /* of these; 0: there is no allowance */
    uint64_t credit_used_ns;    /* when something was taken of them, or came back, the last time */
};

/* Guards the list of devices and their contexts. */
extern struct lock device_lock;

/* Whether this process has ever used two at a time. */
extern bool devices_several;

/* Looks the device up with the agent, without attaching; NULL when the agent refuses. */
struct device *device_look_up(CUdevice ordinal);
/* Makes room for a context on it, which the caller creates next and then calls device_created.
 * CUDA_SUCCESS, or the error that the program gets. */
CUresult device_attach(CUdevice ordinal, struct device **device);
void device_created(struct device *device);
/* Sees to it that it stays attached until device_created; false: it is not. */
bool device_keep_attached(struct device *device);
/* The device with this ordinal, attached. */
CUresult device_of_ordinal(CUdevice ordinal, struct device **device);
/* By the agent's index; NULL if this process does not use it. */
struct device *device_of_gpu(uint32_t gpu);
/* What this process may allocate on a GPU has changed. */
void device_set_limit(uint32_t gpu, uint64_t limit_bytes);
uint64_t device_limit(const struct device *device);
/* Loops over the attached ones: start with NULL. */
struct device *device_next(const struct device *device);

/* Detaches a device on which there is no context any more, none is being created, and no memory is
 * allocated; `detaching` is called before the agent is told. */
void device_detach_unused(struct device *device, void (*detaching)(struct device *device));
/* What a new agent is told of this process' part of the device. */
void device_tell(const struct device *device, struct mw_attach *state);
void device_after_fork(void);

#endif
