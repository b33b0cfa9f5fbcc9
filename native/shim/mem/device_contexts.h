/* The contexts of each device: any of them can move its memory. */
#ifndef MOIETY_SHIM_MEM_DEVICE_CONTEXTS_H
#define MOIETY_SHIM_MEM_DEVICE_CONTEXTS_H

#include "cuda/cuda_abi.h"
#include "shim/base/lock.h"
#include "shim/mem/device.h"
#include <stdbool.h>
#include <stdint.h>

/* Held by a thread that destroys a context, and by the control thread while it uses contexts. Never held
 * while the agent is asked something. */
extern struct lock contexts_lock;

/* A context exists now / is gone. */
void device_add_context(struct device *device, CUcontext context);
bool device_remove_context(CUcontext context, struct device **device);
/* The caller is about to destroy a context; false: no device lists it. Until device_end_destroy no thread that
 * found it current adds it again. */
bool device_begin_destroy(CUcontext context, struct device **device);
void device_end_destroy(void);
bool device_has_context(const struct device *device, CUcontext context);
/* The error that the driver reports of the current context before all others: there is none, it was
 * destroyed, or a kernel has broken it. */
CUresult device_check(void);
/* The device of the current context, attached. */
CUresult device_current(struct device **device);
/* Makes a context of the device current for the calling thread; pop it afterwards. */
bool device_push(struct device *device);
void device_pop(void);
/* Waits until nothing of this process runs on the device. */
void device_drain(struct device *device);
/* One context of a device after the other, NULL after the last; *place is CONTEXTS_ALL at first. Others may come and go
 * meanwhile. */
#define CONTEXTS_ALL UINT32_MAX
CUcontext device_next_context(const struct device *device, uint32_t *place);

void device_contexts_after_fork(void);

#endif
