#include "simgpu/api/context_lifecycle.h"

#include <stdlib.h>

#include "simgpu/api/ipc.h"
#include "simgpu/base/devices.h"
#include "simgpu/base/handles.h"
#include "simgpu/context/context_stack.h"
#include "simgpu/context/fault.h"
#include "simgpu/mem/chunk.h"
#include "simgpu/mem/memory.h"
#include "simgpu/mem/pool_memory.h"
#include "simgpu/shared/process_table.h"
#include "simgpu/shared/state.h"
#include "simgpu/stream/stream.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned contexts_on[SG_DEVICES_MAX];
static uint64_t next_id = 1;

void sg_contexts_lock(void) { pthread_mutex_lock(&lock); }

void sg_contexts_unlock(void) { pthread_mutex_unlock(&lock); }

/* Returns whether the card's compute mode lets this process have a context. */
static int is_admitted(unsigned gpu)
{
    unsigned mode = sg_profile_of(gpu)->compute_mode;
    int others = 0;
    if (mode != SG_EXCLUSIVE) {
        return mode != SG_PROHIBITED;
    }
    sg_lock();
    sg_reap();
    for (unsigned i = 0; i < sg_state->processes_high; i++) {
        const struct sg_process *process = &sg_state->process[i];
        others |= process->pid && process != sg_process && process->on[gpu].context_bytes;
    }
    sg_unlock();
    return !others;
}

CUresult sg_context_create(CUcontext *out, unsigned flags, unsigned gpu, unsigned version)
{
    CUcontext context;
    if (sg_state->faults.lost & 1u << gpu) {
        return CUDA_ERROR_UNKNOWN;
    }
    if (contexts_on[gpu] == 0) {
        if (!is_admitted(gpu)) {
            return CUDA_ERROR_DEVICE_UNAVAILABLE;
        }
        CUresult result = sg_charge_context(gpu, (int64_t)sg_profile_of(gpu)->residue_bytes);
        if (result) {
            return result;
        }
    }
    context = calloc(1, sizeof *context);
    if (!context) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    context->gpu = gpu;
    context->faults_seen = sg_fault_count();
    context->flags = flags;
    context->version = version;
    context->id = next_id++;
    context->limit[CU_LIMIT_STACK_SIZE] = 1024;
    context->limit[CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20;
    context->limit[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20;
    context->limit[CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = 2;
    context->limit[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048;
    context->limit[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 64;
    pthread_mutex_init(&context->lock, NULL);
    pthread_cond_init(&context->changed, NULL);
    context->legacy = sg_stream_new(context, CU_STREAM_DEFAULT, 0);
    context->legacy->legacy = 1;
    contexts_on[gpu]++;
    sg_process->counters.contexts++;
    sg_handle_add(context, SG_CONTEXT_TYPE);
    *out = context;
    return CUDA_SUCCESS;
}

/* The object is not freed, because other threads may have it on their stacks. */
void sg_context_destroy(CUcontext context)
{
    if (!context->sticky_error) {
        sg_context_drain(context);
    }
    context->destroyed = 1;
    sg_handle_remove(context, SG_CONTEXT_TYPE);
    pthread_mutex_lock(&context->lock);
    for (CUstream stream = context->streams; stream; stream = stream->next) {
        stream->stopping = 1;
        pthread_cond_signal(&stream->work);
    }
    pthread_mutex_unlock(&context->lock);
    sg_ipc_close_all(context);
    sg_memory_free_all(context);
    if (--contexts_on[context->gpu] == 0) {
        sg_pools_release_all(context->gpu);
        sg_charge_context(context->gpu, -(int64_t)sg_profile_of(context->gpu)->residue_bytes);
    }
}

static CUresult create_current(CUcontext *out, unsigned flags, CUdevice device, unsigned version)
{
    SG_ENTER();
    if (!out || flags & ~(unsigned)CU_CTX_FLAGS_MASK) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!sg_device_is(device)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    if (sg_context_stack_is_full()) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    sg_contexts_lock();
    CUresult result = sg_context_create(out, flags, sg_device_of(device), version);
    sg_contexts_unlock();
    if (!result) {
        sg_context_stack_push(*out);
    }
    return result;
}

CUresult cuCtxCreate_v2(CUcontext *out, unsigned int flags, CUdevice device)
{
    return create_current(out, flags, device, 3020);
}

CUresult cuCtxCreate_v3(CUcontext *out, CUexecAffinityParam *params, int count, unsigned int flags,
                        CUdevice device)
{
    if (count > 0 && params) {
        return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    }
    return create_current(out, flags, device, 3020);
}

CUresult cuCtxCreate_v4(CUcontext *out, CUctxCreateParams *params, unsigned int flags,
                        CUdevice device)
{
    if (params && params->numExecAffinityParams > 0) {
        return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
    }
    if (params && params->cigParams) {
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    return create_current(out, flags, device, 3020);
}

CUresult cuCtxDestroy_v2(CUcontext context)
{
    SG_ENTER();
    if (!sg_handle_is(context, SG_CONTEXT_TYPE) || context->primary) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    sg_contexts_lock();
    sg_context_destroy(context);
    sg_contexts_unlock();
    if (sg_context_current() == context) {
        sg_context_stack_pop();
    }
    return CUDA_SUCCESS;
}

CUresult cuCtxDestroy(CUcontext context) { return cuCtxDestroy_v2(context); }

CUresult cuCtxAttach(CUcontext *out, unsigned int flags)
{
    SG_CONTEXT(context);
    if (flags || !out) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    sg_contexts_lock();
    context->attached++;
    sg_contexts_unlock();
    *out = context;
    return CUDA_SUCCESS;
}

static int detach(CUcontext context)
{
    sg_contexts_lock();
    int attached = context->attached != 0;
    context->attached -= attached;
    sg_contexts_unlock();
    return attached;
}

CUresult cuCtxDetach(CUcontext context)
{
    SG_ENTER();
    if (sg_handle_is(context, SG_CONTEXT_TYPE) && detach(context)) {
        return CUDA_SUCCESS;
    }
    return cuCtxDestroy_v2(context);
}
