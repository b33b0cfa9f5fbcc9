/* Freeing device memory: of one address, of an extent, of a context.
 *
 * What is freed while a stream is captured is freed when the capture has ended: waiting for the GPU would
 * break the capture, and freeing without having waited would take memory away from running work. */
#ifndef MOIETY_SHIM_MEM_RELEASE_H
#define MOIETY_SHIM_MEM_RELEASE_H

#include <stdbool.h>

#include "cuda/cuda_abi.h"

struct device;
struct extent;

/* Frees what alloc_device and alloc_managed returned. False: it is not ours, ask the driver. */
bool release_address(CUdeviceptr pointer, CUresult *result);
/* Frees what was deferred while a capture was open. */
void release_after_capture(void);
/* The same while a capture is open, once nothing runs on a GPU. Control thread. */
void release_after_drain(void);
/* Memory is needed while a capture is open: frees what was deferred on the device, once nothing that is submitted uses
 * it. True: there was some. No lock is held. */
bool release_deferred(const struct device *device);
/* Frees all that was allocated in a context; NULL: on the device. */
void release_context(struct device *device, CUcontext context);

/* Waits for the work of a context and of the current one, as freeing does. It returns at once without a
 * lease, since nothing runs then. False: a capture is open, and the work may go on. */
bool release_await(CUcontext context, CUresult *result);
/* The same, also while a capture is open: then it waits for each stream that takes no part in one. */
void release_await_wholly(CUcontext context, CUresult *result);
/* Takes a retiring extent out of the table and destroys it, unless its memory is cached (accounting.h), and
 * tells the agent. Waits until nothing of it is being moved; no lock is held. */
void release_extent(struct extent *extent);
/* The same, but its memory is never cached. */
void release_extent_wholly(struct extent *extent);
void release_after_fork(void);

#endif
