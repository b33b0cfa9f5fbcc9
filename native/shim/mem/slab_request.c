#include "shim/mem/slab_request.h"

#include <stdatomic.h>

#include "shim/base/lock.h"
#include "shim/gate/gate.h"
#include "shim/mem/extent.h"
#include "shim/mem/slab.h"

/* All under extent_lock. */
static struct slab_request *requests; /* those that wait or make */
static uint64_t moments;
static _Atomic uint32_t
    ends; /* slabs that were made, or not: threads that wait for one sleep here */

static bool is_alike(const struct slab_request *a, const struct slab_request *b)
{
    return a->device == b->device && a->context == b->context && a->managed == b->managed;
}

static bool is_being_made(const struct slab_request *request)
{
    for (const struct slab_request *each = requests; each; each = each->next) {
        if (each->is_making && is_alike(each, request)) {
            return true;
        }
    }
    return false;
}

/* A thread inside the gate must not wait: the thread that makes the slab may stand before it. */
static bool may_wait(void)
{
    const struct mw_slot *slot = gate_slot;
    return !slot || __atomic_load_n(&slot->depth, __ATOMIC_RELAXED) == 0;
}

static void join(struct slab_request *request)
{
    if (!request->waits_since) {
        request->waits_since = ++moments;
        request->next = requests;
        requests = request;
    }
}

static void leave(struct slab_request *request)
{
    if (!request->waits_since) {
        return; /* it never joined */
    }
    for (struct slab_request **at = &requests; *at; at = &(*at)->next) {
        if (*at == request) {
            *at = request->next;
            return;
        }
    }
}

/* One look under the lock; false: another thread makes a slab, and the caller waits for the end after `seen`. */
static bool look(struct slab_request *request, CUdeviceptr *pointer, enum slab_answer *answer,
                 uint32_t *seen)
{
    LOCK_SCOPE(&extent_lock);
    *seen = atomic_load(&ends);
    if (slab_take(request->device, request->context, request->managed, request->bytes, pointer)) {
        *answer = SLAB_TAKEN;
    } else if (request->is_refused) {
        *answer = SLAB_REFUSED;
    } else {
        bool waits = may_wait() && is_being_made(request);
        join(request);
        request->is_making = !waits;
        request->makes_since = waits ? 0 : ++moments;
        *answer = SLAB_MAKE;
        return !waits;
    }
    leave(request);
    return true;
}

enum slab_answer slab_request_take(struct slab_request *request, CUdeviceptr *pointer)
{
    enum slab_answer answer;
    uint32_t seen;
    while (!look(request, pointer, &answer, &seen)) {
        futex_wait(&ends, seen, -1);
    }
    return answer;
}

void slab_request_end(struct slab_request *request, CUresult result)
{
    leave(request);
    for (struct slab_request *each = requests; each; each = each->next) {
        each->is_refused |= result == CUDA_ERROR_OUT_OF_MEMORY && !each->is_making &&
                            is_alike(each, request) && each->waits_since < request->makes_since;
    }
    atomic_fetch_add(&ends, 1);
    futex_wake_all(&ends);
}

void slab_request_after_fork(void) { requests = NULL; }
