#include "shim/mem/graph_memory.h"

#include <stdlib.h>

#include "shim/base/driver.h"
#include "shim/base/lock.h"
#include "shim/mem/unevictable.h"

enum graph_state {
    GRAPH_EXPECTED, /* charged by its nodes: the driver has no memory for it yet */
    GRAPH_TAKEN,    /* the driver has its memory, and says how much */
    GRAPH_TRIMMED,  /* the driver gave it back, and takes it again at the next launch */
};

/* The nodes of one graph on one device. It stays while its graph or its executable form exists. */
struct graph_memory {
    struct graph_memory *next;
    CUgraph graph;
    CUgraphExec exec;
    struct meter *meter;
    uint64_t bytes;
    enum graph_state state;
};

atomic_bool graph_memory_is_used;
static struct lock lock = LOCK_INIT(LOCK_GRAPH_MEMORY); /* a leaf */
static struct graph_memory *graphs;

static uint64_t expected_bytes(const struct meter *meter)
{
    uint64_t bytes = 0;
    LOCK_SCOPE(&lock);
    for (const struct graph_memory *each = graphs; each; each = each->next) {
        bytes += each->meter == meter && each->state == GRAPH_EXPECTED ? each->bytes : 0;
    }
    return bytes;
}

static CUresult charge(struct meter *meter)
{
    return unevictable_charge_graphs(meter, expected_bytes(meter));
}

/* With the lock. */
static struct graph_memory *find(CUgraph graph, const struct meter *meter)
{
    struct graph_memory *found = graphs;
    while (found && (found->graph != graph || found->meter != meter)) {
        found = found->next;
    }
    return found;
}

static bool grow(CUgraph graph, struct meter *meter, uint64_t bytes)
{
    LOCK_SCOPE(&lock);
    struct graph_memory *found = find(graph, meter);
    if (!found) {
        found = calloc(1, sizeof(*found));
        if (!found) {
            return false;
        }
        *found = (struct graph_memory){.next = graphs, .graph = graph, .meter = meter};
        graphs = found;
    }
    found->bytes += bytes;
    found->state = GRAPH_EXPECTED;
    return true;
}

static uint64_t charged_bytes(uint64_t bytes)
{
    return (bytes + UNEVICTABLE_PAGE - 1) / UNEVICTABLE_PAGE * UNEVICTABLE_PAGE;
}

CUresult graph_memory_add(CUgraph graph, struct device *device, uint64_t bytes)
{
    struct meter *meter = unevictable_meter(NULL, device);
    if (!meter || !grow(graph, meter, charged_bytes(bytes))) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    atomic_store(&graph_memory_is_used, true);
    CUresult result = charge(meter);
    if (result != CUDA_SUCCESS && graph_memory_trim(device->ordinal) == CUDA_SUCCESS) {
        result = charge(meter);
    }
    if (result != CUDA_SUCCESS) {
        graph_memory_take_back(graph, device, bytes);
    }
    return result;
}

void graph_memory_take_back(CUgraph graph, const struct device *device, uint64_t bytes)
{
    struct meter *meter = unevictable_find_meter(NULL, device->ordinal);
    lock_take(&lock);
    struct graph_memory *found = find(graph, meter);
    if (found) {
        found->bytes -= charged_bytes(bytes);
    }
    lock_drop(&lock);
    if (found) {
        charge(meter);
    }
}

struct graph_capture graph_memory_captured(CUstream stream)
{
    CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
    struct graph_capture found = {0};
    CUresult result =
        DRIVER(cuStreamGetCaptureInfo_v2)(stream, &status, &found.id, &found.graph, NULL, NULL);
    return result == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_ACTIVE
               ? found
               : (struct graph_capture){0};
}

void graph_memory_end_capture(CUgraph captured, CUgraph graph)
{
    if (!captured || captured == graph || !atomic_load(&graph_memory_is_used)) {
        return;
    }
    if (!graph) {
        graph_memory_forget_graph(captured);
        return;
    }
    LOCK_SCOPE(&lock);
    for (struct graph_memory *each = graphs; each; each = each->next) {
        each->graph = each->graph == captured ? graph : each->graph;
    }
}

void graph_memory_instantiated(CUgraph graph, CUgraphExec exec)
{
    LOCK_SCOPE(&lock);
    for (struct graph_memory *each = graphs; each; each = each->next) {
        each->exec = each->graph == graph ? exec : each->exec;
    }
}

/* ---- launches ---- */

/* Changes one entry of the executable form from one state to the other. NULL: none is in the first one. */
static struct meter *change(CUgraphExec exec, enum graph_state from, enum graph_state to)
{
    LOCK_SCOPE(&lock);
    for (struct graph_memory *each = graphs; each; each = each->next) {
        if (each->exec == exec && each->state == from) {
            each->state = to;
            return each->meter;
        }
    }
    return NULL;
}

CUresult graph_memory_begin_launch(CUgraphExec exec)
{
    CUresult result = CUDA_SUCCESS;
    struct meter *meter = exec ? change(exec, GRAPH_TRIMMED, GRAPH_EXPECTED) : NULL;
    while (meter && result == CUDA_SUCCESS) {
        result = charge(meter);
        meter = result == CUDA_SUCCESS ? change(exec, GRAPH_TRIMMED, GRAPH_EXPECTED) : NULL;
    }
    while (result != CUDA_SUCCESS &&
           (meter = change(exec, GRAPH_EXPECTED, GRAPH_TRIMMED)) != NULL) {
        charge(meter);
    }
    return result;
}

void graph_memory_end_launch(CUgraphExec exec)
{
    struct meter *meter;
    while (exec && (meter = change(exec, GRAPH_EXPECTED, GRAPH_TAKEN)) != NULL) {
        charge(meter);
    }
}

/* ---- the end of graphs ---- */

/* Removes one entry that has neither graph nor executable form; NULL: there is none. */
static struct meter *remove_unused(void)
{
    LOCK_SCOPE(&lock);
    for (struct graph_memory **at = &graphs; *at; at = &(*at)->next) {
        struct graph_memory *gone = *at;
        if (!gone->graph && !gone->exec) {
            struct meter *meter = gone->meter;
            *at = gone->next;
            free(gone);
            return meter;
        }
    }
    return NULL;
}

static void end_unused(void)
{
    struct meter *meter;
    while ((meter = remove_unused()) != NULL) {
        charge(meter);
    }
}

void graph_memory_forget_graph(CUgraph graph)
{
    lock_take(&lock);
    for (struct graph_memory *each = graphs; each; each = each->next) {
        each->graph = each->graph == graph ? NULL : each->graph;
    }
    lock_drop(&lock);
    end_unused();
}

void graph_memory_forget_exec(CUgraphExec exec)
{
    lock_take(&lock);
    for (struct graph_memory *each = graphs; each; each = each->next) {
        each->exec = each->exec == exec ? NULL : each->exec;
    }
    lock_drop(&lock);
    end_unused();
}

CUresult graph_memory_trim(CUdevice device)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED; /* it is no part of a capture */
    DRIVER(cuThreadExchangeStreamCaptureMode)(&mode);
    CUresult result = DRIVER(cuDeviceGraphMemTrim)(device);
    DRIVER(cuThreadExchangeStreamCaptureMode)(&mode);
    struct meter *meter = result == CUDA_SUCCESS ? unevictable_find_meter(NULL, device) : NULL;
    if (!meter) {
        return result;
    }
    lock_take(&lock);
    for (struct graph_memory *each = graphs; each; each = each->next) {
        if (each->meter == meter && each->state == GRAPH_TAKEN) {
            each->state = GRAPH_TRIMMED;
        }
    }
    lock_drop(&lock);
    charge(meter);
    return result;
}

void graph_memory_forget_device(const struct device *device)
{
    const struct meter *meter = unevictable_find_meter(NULL, device->ordinal);
    LOCK_SCOPE(&lock);
    for (struct graph_memory **at = &graphs; *at;) {
        struct graph_memory *gone = *at;
        if (gone->meter == meter) {
            *at = gone->next;
            free(gone);
        } else {
            at = &gone->next;
        }
    }
}

void graph_memory_after_fork(void)
{
    graphs = NULL;
    atomic_store(&graph_memory_is_used, false);
    lock_after_fork(&lock);
}
