/* Nodes of graphs, and memory that graphs allocate. The driver allocates it when a graph is
 * launched, at addresses that the nodes got before, and keeps it until it is told to trim. It stays
 * on the GPU. */
#include "shim/agent/client_report.h"
#include "shim/base/driver.h"
#include "shim/gate/gate.h"
#include "shim/gate/queue_depth.h"
#include "shim/hooks/range_check.h"
#include "shim/mem/device_contexts.h"
#include "shim/mem/peer_copy.h"
#include "shim/mem/peer_copy_node.h"
#include "shim/mem/unevictable.h"

static CUresult expect(CUdevice ordinal, uint64_t bytes)
{
    struct device *device;
    if (device_current(&device) != CUDA_SUCCESS || device->ordinal != ordinal) {
        CUresult result = client_pin_begin("cuGraphAddMemAllocNode"); /* it is of another device */
        if (result == CUDA_SUCCESS) {
            client_pin_end(true);
        }
        return result;
    }
    struct meter *meter = unevictable_meter(NULL, device);
    return meter ? unevictable_expect(meter, bytes) : CUDA_ERROR_OUT_OF_MEMORY;
}

static CUresult expect_node(const CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
    return client_is_active() && params ? expect(params->poolProps.location.id, params->bytesize)
                                        : CUDA_SUCCESS;
}

CUresult cuGraphAddMemAllocNode(CUgraphNode *graph_node, CUgraph graph,
                                const CUgraphNode *dependencies, size_t count,
                                CUDA_MEM_ALLOC_NODE_PARAMS *node_params)
{
    CUresult result = expect_node(node_params);
    return result == CUDA_SUCCESS
               ? DRIVER(cuGraphAddMemAllocNode)(graph_node, graph, dependencies, count, node_params)
               : result;
}

static CUresult expect_any(const CUgraphNodeParams *params)
{
    if (params && (params->type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP ||
                   params->type == CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT)) {
        queue_depth_be_impatient(); /* such a graph may wait for the thread that launches it */
    }
    return params && params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC ? expect_node(&params->alloc)
                                                                  : CUDA_SUCCESS;
}

/* Inside the gate: the driver looks where the addresses lie. */
#define ADD_NODE(name, parameters, arguments)                                      \
    CUresult name parameters                                                       \
    {                                                                              \
        CUresult result = expect_any(node_params);                                 \
        if (result == CUDA_SUCCESS) {                                              \
            struct mw_slot *slot = gate_enter();                                   \
            CUcontext before = peer_copy_node(node_params);                        \
            result = range_check_fails_node(node_params) ? range_check_error()     \
                                                         : DRIVER(name) arguments; \
            peer_copy_node_end(node_params, before);                               \
            gate_leave(slot);                                                      \
        }                                                                          \
        return result;                                                             \
    }

#define WITH_EDGES                                                             \
    (CUgraphNode * graph_node, CUgraph graph, const CUgraphNode *dependencies, \
     const CUgraphEdgeData *dependency_data, size_t count, CUgraphNodeParams *node_params)
#define EDGES (graph_node, graph, dependencies, dependency_data, count, node_params)

ADD_NODE(cuGraphAddNode,
         (CUgraphNode * graph_node, CUgraph graph, const CUgraphNode *dependencies, size_t count,
          CUgraphNodeParams *node_params),
         (graph_node, graph, dependencies, count, node_params))
ADD_NODE(cuGraphAddNode_v2, WITH_EDGES, EDGES)
ADD_NODE(cuGraphAddNode_v3, WITH_EDGES, EDGES)

CUresult cuDeviceGraphMemTrim(CUdevice device)
{
    CUresult result = DRIVER(cuDeviceGraphMemTrim)(device);
    struct meter *meter =
        result == CUDA_SUCCESS && client_is_active() ? unevictable_find_meter(NULL, device) : NULL;
    if (meter) {
        unevictable_settle(meter);
    }
    return result;
}
