/* The contexts of each device: any of them can move its memory. */
#ifndef MOIETY_SHIM_MEM_DEVICE_CONTEXTS_H
#define MOIETY_SHIM_MEM_DEVICE_CONTEXTS_H

#include "cuda/cuda_abi.h"
#include "shim/base/lock.h"
#include "shim/mem/device.h"
#include <stdbool.h>
#include <stdint.h>

/* Held by whoever destroys a context, and by the control thread while it uses them. Taken before
 * any other lock, and never while the agent is asked something. */
extern struct lock contexts_lock;

/* A context exists now / is about to go / was not destroyed after all. */
void device_add_context(struct device *device, CUcontext context);
bool device_remove_context(CUcontext context, struct device **device);
bool device_has_context(const struct device *device, CUcontext context);
/* What the driver has to say of the current context before anything else: that there is none, that it
 * was destroyed, or that what ran in it has ended it. */
CUresult device_check(void);
/* The device of the current context, attached. */
CUresult device_current(struct device **device);
/* Makes a context of the device current for the calling thread; pop it afterwards. */
bool device_push(struct device *device);
void device_pop(void);
/* Waits until nothing of this process runs on the device. */
void device_drain(struct device *device);
/* Copies its contexts there, CONTEXTS_MAX at most; how many. */
uint32_t device_contexts(const struct device *device, CUcontext *contexts);

void device_contexts_after_fork(void);

#endif
