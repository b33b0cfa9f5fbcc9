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
/* Frees what was put off while a capture was open. */
void release_after_capture(void);
/* Control thread: the same while one is open, once nothing runs on a GPU. */
void release_after_drain(void);
/* Frees everything that was allocated in this context (or on the device, if NULL). */
void release_context(struct device *device, CUcontext context);

/* Waits for the work of a context and of the current one, as freeing does; nothing runs without a
 * lease, so it returns at once there. False, with something not waited for: a capture is open. */
bool release_await(CUcontext context, CUresult *result);
/* An extent that is retiring goes out of the table and is destroyed, unless its memory is kept for the
 * next one (accounting.h); the agent knows. Waits until nothing of it is being moved; no lock is held. */
void release_extent(struct extent *extent);
/* The same, but its memory is never kept. */
void release_extent_wholly(struct extent *extent);
void release_after_fork(void);

#endif
