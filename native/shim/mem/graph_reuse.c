#include "shim/mem/graph_reuse.h"

#include <stdlib.h>

#include "shim/base/driver.h"
#include "shim/base/lock.h"
#include "shim/mem/graph_memory.h"

/* Work of one stream is in order, so what it allocates may have what it freed. Other streams of the capture may run
 * beside it. */
struct graph_part {
    struct graph_part *next;
    struct graph_capture capture;
    struct device *device;
    uint64_t bytes;
    CUdeviceptr pointer; /* of what is allocated in it */
    CUstream freed_in;
    bool is_free;
    bool is_new; /* charged for what is about to be allocated */
};

static struct lock lock = LOCK_INIT(LOCK_GRAPH_MEMORY); /* a leaf */
static struct graph_part *parts;                        /* without those that a thread has */

/* All threads have a stream by this name, and its parts cannot be told apart. */
static bool is_shared_name(CUstream stream) { return stream == CU_STREAM_PER_THREAD; }

static struct graph_part *take_out(struct graph_part **at)
{
    struct graph_part *taken = at ? *at : NULL;
    if (taken) {
        *at = taken->next;
    }
    return taken;
}

/* The smallest free part that is large enough. */
static struct graph_part *take(const struct graph_capture *capture, CUstream stream,
                               const struct device *device, uint64_t bytes)
{
    struct graph_part **best = NULL;
    LOCK_SCOPE(&lock);
    for (struct graph_part **at = &parts; *at; at = &(*at)->next) {
        const struct graph_part *each = *at;
        if (each->is_free && each->capture.id == capture->id && each->freed_in == stream &&
            each->device == device && each->bytes >= bytes &&
            (!best || each->bytes < (*best)->bytes)) {
            best = at;
        }
    }
    return take_out(best);
}

CUresult graph_reuse_begin(CUstream stream, struct device *device, uint64_t bytes,
                           struct graph_part **part)
{
    struct graph_capture capture = graph_memory_captured(stream);
    struct graph_part *made = is_shared_name(stream) ? NULL : take(&capture, stream, device, bytes);
    *part = made;
    if (made) {
        made->is_new = false;
        return CUDA_SUCCESS;
    }
    made = calloc(1, sizeof(*made));
    CUresult result =
        made ? graph_memory_add(capture.graph, device, bytes) : CUDA_ERROR_OUT_OF_MEMORY;
    if (result != CUDA_SUCCESS) {
        free(made);
        return result;
    }
    *made =
        (struct graph_part){.capture = capture, .device = device, .bytes = bytes, .is_new = true};
    *part = made;
    return CUDA_SUCCESS;
}

void graph_reuse_end(struct graph_part *part, bool succeeded, CUdeviceptr pointer)
{
    if (!succeeded && part->is_new) {
        graph_memory_take_back(part->capture.graph, part->device, part->bytes);
        free(part);
        return;
    }
    LOCK_SCOPE(&lock);
    part->is_free = !succeeded;
    part->pointer = succeeded ? pointer : 0;
    part->next = parts;
    parts = part;
}

void graph_reuse_freed(CUstream stream, CUdeviceptr pointer)
{
    struct graph_capture capture = graph_memory_captured(stream);
    LOCK_SCOPE(&lock);
    for (struct graph_part *each = parts; each; each = each->next) {
        if (!each->is_free && each->pointer == pointer && each->capture.id == capture.id) {
            each->is_free = true;
            each->freed_in = stream;
            return;
        }
    }
}

void graph_reuse_forget(CUgraph graph)
{
    LOCK_SCOPE(&lock);
    for (struct graph_part **at = &parts; *at;) {
        if ((*at)->capture.graph == graph) {
            free(take_out(at));
        } else {
            at = &(*at)->next;
        }
    }
}

void graph_reuse_after_fork(void)
{
    parts = NULL;
    lock_after_fork(&lock);
}
