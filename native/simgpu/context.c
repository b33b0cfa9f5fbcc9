#include "simgpu/context.h"

#include <stdlib.h>
#include <string.h>

#include "simgpu/capture.h"
#include "simgpu/chunk.h"
#include "simgpu/memory.h"
#include "simgpu/stream.h"

#define STACK_DEPTH 64

static pthread_mutex_t lock =
    PTHREAD_MUTEX_INITIALIZER; /* what is below, and creating and destroying */
static CUcontext primary[SG_DEVICES_MAX];
static unsigned primary_flags[SG_DEVICES_MAX];
static unsigned contexts_on[SG_DEVICES_MAX];
static uint64_t next_id = 1;

static __thread CUcontext stack[STACK_DEPTH];
static __thread int depth; /* the current one is the top: stack[depth - 1] */

CUcontext sg_context_current(void) { return depth > 0 ? stack[depth - 1] : NULL; }

CUresult sg_enter_context(CUcontext *out)
{
    SG_ENTER();
    CUcontext context = sg_context_current();
    if (!context) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    if (context->destroyed) {
        return CUDA_ERROR_CONTEXT_IS_DESTROYED;
    }
    *out = context;
    return context->broken;
}

void sg_context_break(CUcontext context, CUresult why)
{
    CUresult none = CUDA_SUCCESS;
    __atomic_compare_exchange_n(&context->broken, &none, why, 0, __ATOMIC_ACQ_REL,
                                __ATOMIC_ACQUIRE);
}

CUresult sg_context_drain(CUcontext context)
{
    pthread_mutex_lock(&context->lock);
    for (CUstream stream = context->streams; stream;) {
        if (stream->completed >= stream->submitted) {
            stream = stream->next;
            continue;
        }
        pthread_cond_wait(&context->changed, &context->lock);
        stream = context->streams; /* the list may have changed meanwhile */
    }
    pthread_mutex_unlock(&context->lock);
    return context->broken;
}

/* ---- creating and destroying ---- */

static CUresult create(CUcontext *out, unsigned flags, unsigned gpu, unsigned version)
{
    CUcontext context;
    if (contexts_on[gpu] == 0) {
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

/* The object itself stays: other threads may have it on their stacks. */
static void destroy(CUcontext context)
{
    if (!context->broken) {
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
    sg_memory_free_all(context);
    if (--contexts_on[context->gpu] == 0) {
        sg_charge_context(context->gpu, -(int64_t)sg_profile_of(context->gpu)->residue_bytes);
    }
}

static CUresult create_current(CUcontext *out, unsigned flags, CUdevice device, unsigned version)
{
    SG_ENTER();
    if (!out) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!sg_device_is(device)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    if (depth == STACK_DEPTH) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_lock(&lock);
    CUresult result = create(out, flags, sg_device_of(device), version);
    pthread_mutex_unlock(&lock);
    if (!result) {
        stack[depth++] = *out;
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
    pthread_mutex_lock(&lock);
    destroy(context);
    pthread_mutex_unlock(&lock);
    if (sg_context_current() == context) {
        depth--;
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
    *out = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxDetach(CUcontext context) { return cuCtxDestroy_v2(context); }

/* ---- primary contexts ---- */

static CUresult primary_of(CUcontext *out, CUdevice device)
{
    unsigned gpu = sg_device_of(device);
    CUresult result = CUDA_SUCCESS;
    if (!primary[gpu] || primary[gpu]->destroyed) {
        result = create(&primary[gpu], primary_flags[gpu], gpu, 3020);
        if (!result) {
            primary[gpu]->primary = 1;
        } else {
            primary[gpu] = NULL;
        }
    }
    *out = primary[gpu];
    return result;
}

CUcontext sg_context_primary(CUdevice device)
{
    CUcontext context = primary[sg_device_of(device)];
    return context && !context->destroyed ? context : NULL;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *out, CUdevice device)
{
    SG_ENTER();
    if (!out) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!sg_device_is(device)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    pthread_mutex_lock(&lock);
    CUresult result = primary_of(out, device);
    if (!result) {
        (*out)->retained++;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

static CUresult let_go(CUdevice device, int all)
{
    SG_ENTER();
    if (!sg_device_is(device)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    pthread_mutex_lock(&lock);
    unsigned gpu = sg_device_of(device);
    CUcontext context = sg_context_primary(device);
    CUresult result = CUDA_SUCCESS;
    if (!context) {
        result = all ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
    } else if (all || --context->retained <= 0) {
        destroy(context);
        primary[gpu] = NULL;
    }
    pthread_mutex_unlock(&lock);
    return result;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) { return let_go(device, 0); }

CUresult cuDevicePrimaryCtxRelease(CUdevice device) { return let_go(device, 0); }

CUresult cuDevicePrimaryCtxReset_v2(CUdevice device) { return let_go(device, 1); }

CUresult cuDevicePrimaryCtxReset(CUdevice device) { return let_go(device, 1); }

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice device, unsigned int flags)
{
    SG_ENTER();
    if (!sg_device_is(device)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    if (flags & ~(unsigned)CU_CTX_FLAGS_MASK) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_lock(&lock);
    primary_flags[sg_device_of(device)] = flags;
    if (sg_context_primary(device)) {
        sg_context_primary(device)->flags = flags;
    }
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags(CUdevice device, unsigned int flags)
{
    return cuDevicePrimaryCtxSetFlags_v2(device, flags);
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned int *flags, int *active)
{
    SG_ENTER();
    if (!sg_device_is(device)) {
        return CUDA_ERROR_INVALID_DEVICE;
    }
    if (!flags || !active) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_lock(&lock);
    *active = sg_context_primary(device) != NULL;
    *flags = primary_flags[sg_device_of(device)];
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

/* ---- which one is current ---- */

CUresult cuCtxPushCurrent_v2(CUcontext context)
{
    SG_ENTER();
    if (!sg_handle_is(context, SG_CONTEXT_TYPE)) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    if (depth == STACK_DEPTH) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    stack[depth++] = context;
    return CUDA_SUCCESS;
}

CUresult cuCtxPopCurrent_v2(CUcontext *out)
{
    SG_ENTER();
    if (depth == 0) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    depth--;
    if (out) {
        *out = stack[depth];
    }
    return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext context) { return cuCtxPushCurrent_v2(context); }

CUresult cuCtxPopCurrent(CUcontext *out) { return cuCtxPopCurrent_v2(out); }

CUresult cuCtxSetCurrent(CUcontext context)
{
    SG_ENTER();
    if (context && !sg_handle_is(context, SG_CONTEXT_TYPE)) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    if (depth > 0) {
        depth--;
    }
    if (context) {
        stack[depth++] = context;
    }
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *out)
{
    SG_ENTER();
    if (!out) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    *out = sg_context_current();
    return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice(CUdevice *out)
{
    SG_ENTER();
    if (!out) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!sg_context_current()) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    *out = sg_ordinal_of(sg_context_current()->gpu);
    return CUDA_SUCCESS;
}

/* A context that was named, or the current one. */
static CUresult named(CUcontext context, CUcontext *out)
{
    SG_ENTER();
    *out = context ? context : sg_context_current();
    return *out && sg_handle_is(*out, SG_CONTEXT_TYPE) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT;
}

CUresult cuCtxGetDevice_v2(CUdevice *out, CUcontext context)
{
    SG_TRY(named(context, &context));
    *out = sg_ordinal_of(context->gpu);
    return CUDA_SUCCESS;
}

CUresult cuCtxGetId(CUcontext context, unsigned long long *id)
{
    SG_TRY(named(context, &context));
    *id = context->id;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext context, unsigned int *version)
{
    SG_TRY(named(context, &context));
    *version = context->version;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetFlags(unsigned int *flags)
{
    CUcontext context;
    SG_TRY(named(NULL, &context));
    *flags = context->flags;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetFlags(unsigned int flags)
{
    CUcontext context;
    SG_TRY(named(NULL, &context));
    context->flags = flags;
    return CUDA_SUCCESS;
}

/* ---- synchronising, limits ---- */

CUresult cuCtxSynchronize(void)
{
    SG_CONTEXT(context);
    SG_TRY(sg_capture_forbids());
    return sg_context_drain(context);
}

CUresult cuCtxSynchronize_v2(CUcontext context)
{
    SG_TRY(named(context, &context));
    SG_TRY(sg_capture_forbids());
    return sg_context_drain(context);
}

CUresult cuCtxSetLimit(CUlimit limit, size_t value)
{
    SG_CONTEXT(context);
    if ((unsigned)limit >= SG_LIMITS) {
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    }
    context->limit[limit] = value;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetLimit(size_t *value, CUlimit limit)
{
    SG_CONTEXT(context);
    if ((unsigned)limit >= SG_LIMITS) {
        return CUDA_ERROR_UNSUPPORTED_LIMIT;
    }
    *value = context->limit[limit];
    return CUDA_SUCCESS;
}

CUresult cuCtxGetCacheConfig(CUfunc_cache *config)
{
    SG_CONTEXT(context);
    *config = context->cache;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetCacheConfig(CUfunc_cache config)
{
    SG_CONTEXT(context);
    context->cache = config;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetSharedMemConfig(CUsharedconfig *config)
{
    SG_CONTEXT(context);
    (void)context;
    *config = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
    return CUDA_SUCCESS;
}

CUresult cuCtxSetSharedMemConfig(CUsharedconfig config)
{
    SG_CONTEXT(context);
    (void)context;
    return (unsigned)config <= CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE ? CUDA_SUCCESS
                                                                         : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
    SG_CONTEXT(context);
    (void)context;
    if (least) {
        *least = 0;
    }
    if (greatest) {
        *greatest = -5;
    }
    return CUDA_SUCCESS;
}

CUresult cuCtxResetPersistingL2Cache(void)
{
    SG_CONTEXT(context);
    (void)context;
    return CUDA_SUCCESS;
}

CUresult cuCtxGetExecAffinity(CUexecAffinityParam *affinity, CUexecAffinityType type)
{
    SG_CONTEXT(context);
    (void)context, (void)affinity, (void)type;
    return CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY;
}

/* ---- peers: every GPU can reach every other ---- */

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags)
{
    SG_CONTEXT(context);
    if (flags) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (!sg_handle_is(peer, SG_CONTEXT_TYPE) || peer->gpu == context->gpu) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    if (context->peers[peer->gpu]) {
        return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    }
    context->peers[peer->gpu] = 1;
    return CUDA_SUCCESS;
}

CUresult cuCtxDisablePeerAccess(CUcontext peer)
{
    SG_CONTEXT(context);
    if (!sg_handle_is(peer, SG_CONTEXT_TYPE)) {
        return CUDA_ERROR_INVALID_CONTEXT;
    }
    if (!context->peers[peer->gpu]) {
        return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    }
    context->peers[peer->gpu] = 0;
    return CUDA_SUCCESS;
}
