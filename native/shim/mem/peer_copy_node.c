#include "shim/mem/peer_copy_node.h"

#include "shim/agent/client_report.h"
#include "shim/base/lock.h"
#include "shim/mem/extent.h"
#include "shim/mem/extent_table.h"
#include "shim/mem/peer_access.h"
#include "shim/mem/peer_reach.h"

static struct device *owner_of(CUdeviceptr address)
{
    LOCK_SCOPE(&extent_lock);
    const struct extent *extent = extent_table_find(address);
    return extent ? extent->device : NULL;
}

CUcontext peer_copy_node_context(CUcontext named, CUdeviceptr dst, CUdeviceptr src)
{
    CUdevice home;
    CUcontext to;
    CUcontext from;
    if (!devices_several || !client_is_active() || !named) {
        return named;
    }
    home = peer_reach_device_of(named);
    if (home < 0 || home >= 64 || !peer_reach_find_contexts(home, dst, src, &to, &from)) {
        return named;
    }
    if ((to || (dst && peer_reach_is_on_gpu(dst))) &&
        (from || (src && peer_reach_is_on_gpu(src)))) {
        /* A node names one context, so that one gets access to both, if the GPUs can have that. */
        if (to) {
            peer_access_allow(owner_of(dst), home, (struct opener){0});
        }
        if (from) {
            peer_access_allow(owner_of(src), home, (struct opener){0});
        }
        return named;
    }
    return to ? to : from;
}

CUcontext peer_copy_node_context_3d(CUcontext named, const CUDA_MEMCPY3D *copy)
{
    return copy ? peer_copy_node_context(named,
                                         peer_reach_address(copy->dstMemoryType, copy->dstDevice),
                                         peer_reach_address(copy->srcMemoryType, copy->srcDevice))
                : named;
}

static CUcontext *context_of(CUgraphNodeParams *node)
{
    return !node                                     ? NULL
           : node->type == CU_GRAPH_NODE_TYPE_MEMCPY ? &node->memcpy.copyCtx
           : node->type == CU_GRAPH_NODE_TYPE_MEMSET ? &node->memset.ctx
                                                     : NULL;
}

CUcontext peer_copy_node(CUgraphNodeParams *node)
{
    CUcontext *context = context_of(node);
    CUcontext before = context ? *context : NULL;
    if (before && devices_several) {
        *context = node->type == CU_GRAPH_NODE_TYPE_MEMCPY
                       ? peer_copy_node_context_3d(before, &node->memcpy.copyParams)
                       : peer_copy_node_context(before, node->memset.dst, 0);
    }
    return before;
}

void peer_copy_node_end(CUgraphNodeParams *node, CUcontext before)
{
    CUcontext *context = context_of(node);
    if (context) {
        *context = before;
    }
}
