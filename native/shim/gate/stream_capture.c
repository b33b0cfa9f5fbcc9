#include "shim/gate/stream_capture.h"

#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim/base/driver.h"
#include "shim/gate/gate.h"
#include "shim/gate/streams.h"

struct capture {
    struct capture *next;
    CUstream origin;
    CUcontext context;
    CUgraph graph; /* the driver does not tell it any more when the capture is invalid */
    CUstreamCaptureMode mode;
    long thread; /* that began it */
};

static struct capture *captures;
static _Atomic bool allows; /* the driver does not refuse what we think it refuses */

void stream_capture_add(CUstream stream, CUstreamCaptureMode mode)
{
    CUstreamCaptureStatus status;
    cuuint64_t id;
    struct capture *made = calloc(1, sizeof(*made));
    if (!made) {
        return; /* the gate counts it all the same; it counts for ever, which makes drains slower */
    }
    *made = (struct capture){
        .next = captures, .origin = stream, .mode = mode, .thread = syscall(SYS_gettid)};
    DRIVER(cuStreamGetCtx)(stream, &made->context);
    DRIVER(cuStreamGetCaptureInfo_v2)(stream, &status, &id, &made->graph, NULL, NULL);
    captures = made;
}

static bool take_out(struct capture **at)
{
    struct capture *gone = *at;
    *at = gone->next;
    free(gone);
    gate_capture_ended();
    return true;
}

bool stream_capture_remove(CUstream stream, CUgraph *graph)
{
    *graph = NULL;
    long thread = stream == CU_STREAM_PER_THREAD ? syscall(SYS_gettid) : 0;
    for (struct capture **at = &captures; *at; at = &(*at)->next) {
        if ((*at)->origin == stream && (!thread || (*at)->thread == thread)) {
            *graph = (*at)->graph;
            return take_out(at);
        }
    }
    return false;
}

void stream_capture_forget_context(CUcontext context)
{
    LOCK_SCOPE(&streams_lock);
    for (struct capture **at = &captures; *at;) {
        if ((*at)->context == context) {
            take_out(at);
        } else {
            at = &(*at)->next;
        }
    }
}

static bool is_forbidden(void)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    long thread = syscall(SYS_gettid);
    DRIVER(cuThreadExchangeStreamCaptureMode)(&mode);
    CUstreamCaptureMode own = mode;
    DRIVER(cuThreadExchangeStreamCaptureMode)(&mode);
    if (own == CU_STREAM_CAPTURE_MODE_RELAXED) {
        return false;
    }
    LOCK_SCOPE(&streams_lock);
    for (const struct capture *each = captures; each; each = each->next) {
        bool ours = each->thread == thread && each->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
        bool any =
            own == CU_STREAM_CAPTURE_MODE_GLOBAL && each->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
        if (ours || any) {
            return true;
        }
    }
    return false;
}

CUresult stream_capture_check(void)
{
    CUdeviceptr unused;
    if (!gate_in_capture() || atomic_load(&allows) || !is_forbidden()) {
        return CUDA_SUCCESS;
    }
    CUresult result = DRIVER(cuMemAlloc_v2)(&unused, 1);
    if (result == CUDA_SUCCESS) { /* cannot be freed now, and does not come again */
        atomic_store(&allows, true);
    }
    return result;
}

void stream_capture_after_fork(void) { captures = NULL; }
