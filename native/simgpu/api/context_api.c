/* The entry points that query and set properties of a live context. */
#include "simgpu/base/devices.h"
#include "simgpu/base/handles.h"
#include "simgpu/context/context.h"
#include "simgpu/context/context_stack.h"
#include "simgpu/mem/pool_memory.h"
#include "simgpu/stream/capture_rules.h"
#include "simgpu/stream/stream.h"

/* Checks a context; NULL names the current one. */
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

CUresult cuCtxSynchronize(void)
{
    SG_CONTEXT(context);
    SG_TRY(sg_capture_forbids_context(context));
    SG_TRY(sg_context_drain(context));
    sg_pools_synchronised();
    return CUDA_SUCCESS;
}

CUresult cuCtxSynchronize_v2(CUcontext context)
{
    SG_TRY(named(context, &context));
    SG_TRY(sg_capture_forbids_context(context));
    SG_TRY(sg_context_drain(context));
    sg_pools_synchronised();
    return CUDA_SUCCESS;
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
