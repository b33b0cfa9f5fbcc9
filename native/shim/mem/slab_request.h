/* Threads whose small allocation no slab has room for: of one device, context and kind one thread makes a slab,
 * and the others wait for it. Otherwise each thread would make a slab of its own, and many threads would run out of
 * memory that they do not use. */
#ifndef MOIETY_SHIM_MEM_SLAB_REQUEST_H
#define MOIETY_SHIM_MEM_SLAB_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda/cuda_abi.h"
#include "shim/mem/device.h"

/* One thread's request: the caller sets the first four fields, all others are 0. */
struct slab_request {
    const struct device *device;
    CUcontext context;
    bool managed;
    size_t bytes;
    bool is_making;  /* this thread makes a slab */
    bool is_refused; /* another thread made one, began after this one waited, and got no memory */
    uint64_t waits_since; /* numbers of one clock; 0: it does not wait yet */
    uint64_t makes_since;
    struct slab_request *next;
};

enum slab_answer {
    SLAB_TAKEN,   /* the allocation is made */
    SLAB_MAKE,    /* the caller makes a slab, and calls slab_request_end */
    SLAB_REFUSED, /* there is no memory, and no slab has room */
};

/* Takes from a slab that is there, or waits for one that another thread makes. The caller holds no lock. */
enum slab_answer slab_request_take(struct slab_request *request, CUdeviceptr *pointer);
/* With extent_lock: the caller made a slab, or failed to. The threads that wait look again; after
 * CUDA_ERROR_OUT_OF_MEMORY those that waited before this thread began look once and give up. */
void slab_request_end(struct slab_request *request, CUresult result);
void slab_request_after_fork(void);

#endif
