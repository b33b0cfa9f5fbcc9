/* Nodes of graphs, and memory that graphs allocate. The driver allocates it when a graph is
 * launched, at addresses that the nodes got before, and keeps it until it is told to trim. It stays
 * on the GPU. */
#include "shim/agent/client_report.h"
#include "shim/base/driver.h"
#include "shim/gate/gate.h"
#include "shim/gate/queue_depth.h"
#include "shim/hooks/range_check.h"
#include "shim/mem/device_contexts.h"
#include "shim/mem/graph_memory.h"
#include "shim/mem/peer_copy.h"
#include "shim/mem/peer_copy_node.h"

/* *device: where it is charged; NULL: it is not, because it is of another device. */
static CUresult expect(CUgraph graph, CUdevice ordinal, uint64_t bytes, struct device **device)
{
    if (device_current(device) != CUDA_SUCCESS || (*device)->ordinal != ordinal) {
        *device = NULL;
        CUresult result = client_pin_begin("cuGraphAddMemAllocNode");
        if (result == CUDA_SUCCESS) {
            client_pin_end(true);
        }
        return result;
    }
    return graph_memory_add(graph, *device, bytes);
}

static CUresult expect_node(CUgraph graph, const CUDA_MEM_ALLOC_NODE_PARAMS *params,
                            struct device **device)
{
    *device = NULL;
    return client_is_active() && params
               ? expect(graph, params->poolProps.location.id, params->bytesize, device)
               : CUDA_SUCCESS;
}

static CUresult end_node(CUresult result, CUgraph graph, const CUDA_MEM_ALLOC_NODE_PARAMS *params,
                         const struct device *device)
{
    if (device && result != CUDA_SUCCESS) {
        graph_memory_take_back(graph, device, params->bytesize);
    }
    return result;
}

CUresult cuGraphAddMemAllocNode(CUgraphNode *graph_node, CUgraph graph,
                                const CUgraphNode *dependencies, size_t count,
                                CUDA_MEM_ALLOC_NODE_PARAMS *node_params)
{
    struct device *device;
    CUresult result = expect_node(graph, node_params, &device);
    if (result != CUDA_SUCCESS) {
        return result;
    }
    result = DRIVER(cuGraphAddMemAllocNode)(graph_node, graph, dependencies, count, node_params);
    return end_node(result, graph, node_params, device);
}

static CUresult expect_any(CUgraph graph, const CUgraphNodeParams *params, struct device **device)
{
    *device = NULL;
    if (params && (params->type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP ||
                   params->type == CU_GRAPH_NODE_TYPE_EXT_SEMAS_WAIT)) {
        queue_depth_be_impatient(); /* such a graph may wait for the thread that launches it */
    }
    return params && params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC
               ? expect_node(graph, &params->alloc, device)
               : CUDA_SUCCESS;
}

/* Inside the gate: the driver looks where the addresses lie. */
#define ADD_NODE(name, parameters, arguments)                                      \
    CUresult name parameters                                                       \
    {                                                                              \
        struct device *device;                                                     \
        CUresult result = expect_any(graph, node_params, &device);                 \
        if (result == CUDA_SUCCESS) {                                              \
            struct mw_slot *slot = gate_enter();                                   \
            CUcontext before = peer_copy_node(node_params);                        \
            result = range_check_fails_node(node_params) ? range_check_error()     \
                                                         : DRIVER(name) arguments; \
            peer_copy_node_end(node_params, before);                               \
            gate_leave(slot);                                                      \
            result = end_node(result, graph, &node_params->alloc, device);         \
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
    return client_is_active() ? graph_memory_trim(device) : DRIVER(cuDeviceGraphMemTrim)(device);
}
