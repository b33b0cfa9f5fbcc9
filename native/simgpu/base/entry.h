/* How an entry point begins: whether the process may call the driver now.
 *
 * Conventions of the whole driver: entry points and the functions that they call return a CUresult. A
 * handle is the address of its object and is looked up before it is used, because programs pass stale
 * ones. Locks are taken in this order and held shortly: an object's, the address map's, the shared
 * state's.
 */
#ifndef SIMGPU_ENTRY_H
#define SIMGPU_ENTRY_H

#include "cuda/cuda_calls.h"

/* Refuses a call before cuInit, in a forked child, in a host function and while the process exits. */
CUresult sg_enter(void);

#define SG_ENTER()                     \
    do {                               \
        CUresult entered = sg_enter(); \
        if (entered)                   \
            return entered;            \
    } while (0)

#define SG_TRY(call)             \
    do {                         \
        CUresult tried = (call); \
        if (tried)               \
            return tried;        \
    } while (0)

/* The process's use of the driver. It begins with cuInit and ends in a forked child, or at exit. */
int sg_is_initialised(void);
int sg_is_forked(void);
void sg_set_initialised(void);

/* A thread carries out work between the two calls. 0: the process is ending, and no work may begin. */
int sg_work_begin(void);
void sg_work_end(void);

/* Set while a _ptds or _ptsz entry point runs: stream 0 is the thread's own. */
extern __thread int sg_per_thread_default;
/* Set while a function of the program runs in the order of a stream: it may not call the driver. */
extern __thread int sg_in_host_function;
/* Set while the calling thread works for the GPU, not for the host. */
extern __thread int sg_on_gpu;

#endif
