/* What all parts of the stand-in driver share: its objects, and how an entry point begins.
 *
 * Conventions: entry points and whatever they call return a CUresult. A handle is the
 * address of its object and is looked up before it is used, because programs pass stale
 * ones. Locks are taken in this order and held shortly: an object's, the address map's, the
 * shared state's.
 */
#ifndef SIMGPU_DRIVER_H
#define SIMGPU_DRIVER_H

#include <pthread.h>
#include <stdint.h>

#include "cuda/cuda_calls.h"
#include "simgpu/kernel.h"
#include "simgpu/shared/clock.h"
#include "simgpu/shared/link_bandwidth.h"
#include "simgpu/shared/state.h"

#define SG_BLOCK_BYTES (2ull << 20) /* what physical memory is divided into */

/* ---- entry ---- */

CUresult sg_enter(void);                   /* after cuInit, not in a forked child, not at exit */
CUresult sg_enter_context(CUcontext *out); /* and with a context that works */
/* A thread carries out work between the two; 0: the process is ending, and there is to be no more. */
int sg_work_begin(void);
void sg_work_end(void);

unsigned sg_device_count(void);         /* those that CUDA_VISIBLE_DEVICES leaves */
unsigned sg_device_of(CUdevice device); /* the shared state's number */
int sg_device_is(CUdevice device);
const struct sg_profile *sg_profile_of(unsigned gpu);
CUdevice sg_ordinal_of(unsigned gpu);

#define SG_ENTER()                     \
    do {                               \
        CUresult entered = sg_enter(); \
        if (entered)                   \
            return entered;            \
    } while (0)

#define SG_CONTEXT(name)                            \
    CUcontext name;                                 \
    do {                                            \
        CUresult entered = sg_enter_context(&name); \
        if (entered)                                \
            return entered;                         \
    } while (0)

#define SG_TRY(call)             \
    do {                         \
        CUresult tried = (call); \
        if (tried)               \
            return tried;        \
    } while (0)

/* Set while a _ptds or _ptsz entry point runs: stream 0 is the thread's own. */
extern __thread int sg_per_thread_default;
/* Set while a function of the program runs in the order of a stream: it may not call the driver. */
extern __thread int sg_in_host_function;

/* ---- handles ---- */

enum sg_type {
    SG_CONTEXT_TYPE = 1,
    SG_STREAM,
    SG_EVENT,
    SG_MODULE,
    SG_LIBRARY,
    SG_FUNCTION,
    SG_CHUNK,
    SG_GRAPH,
    SG_GRAPH_NODE,
    SG_GRAPH_EXEC,
    SG_POOL,
    SG_USER_OBJECT,
    SG_ARRAY,
    SG_MIPMAPPED_ARRAY,
};

void sg_handle_add(const void *object, enum sg_type type);
int sg_handle_is(const void *object, enum sg_type type);
int sg_handle_remove(const void *object, enum sg_type type); /* 1: it was one */

/* ---- counters ---- */

enum sg_counted { SG_LAUNCHED, SG_GRAPH_LAUNCHED, SG_COPIED, SG_MEMSET_DONE, SG_HOST_CALLED };
void sg_count(enum sg_counted what, uint64_t bytes);

#endif
