#include "simgpu/graph_conditional.h"

#include <stdlib.h>
#include <string.h>

#include "simgpu/resize.h"

/* A handle is a number of this kind; what is on the GPU knows nothing else. */
#define HANDLE_BASE (0x51ull << 32)

struct value {
    CUgraph graph; /* NULL: gone */
    unsigned now, initial;
    int assigns, used;
};

struct sg_conditional {
    CUgraphConditionalHandle handle;
    CUgraphConditionalNodeType type;
    unsigned size;
    CUcontext context;
    CUgraph *bodies;
    struct sg_graph_order *orders; /* NULL before it is launchable */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct value *values;
static size_t value_count;

/* With the lock held. */
static struct value *value_of(uint64_t handle)
{
    uint64_t at = handle - HANDLE_BASE;
    return at < value_count && values[at].graph ? &values[at] : NULL;
}

void sg_conditional_set(uint64_t handle, unsigned value)
{
    pthread_mutex_lock(&lock);
    struct value *known = value_of(handle);
    if (known) {
        known->now = value;
    }
    pthread_mutex_unlock(&lock);
}

static unsigned get(uint64_t handle)
{
    pthread_mutex_lock(&lock);
    const struct value *value = value_of(handle);
    unsigned now = value ? value->now : 0;
    pthread_mutex_unlock(&lock);
    return now;
}

CUresult cuGraphConditionalHandleCreate(CUgraphConditionalHandle *out, CUgraph graph,
                                        CUcontext context, unsigned int initial, unsigned int flags)
{
    SG_ENTER();
    if (!out || !sg_handle_is(graph, SG_GRAPH) || flags > CU_GRAPH_COND_ASSIGN_DEFAULT ||
        (context && !sg_handle_is(context, SG_CONTEXT_TYPE))) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    pthread_mutex_lock(&lock);
    values = sg_resize(values, (value_count + 1) * sizeof *values);
    values[value_count] = (struct value){graph, initial, initial, (int)flags, 0};
    *out = HANDLE_BASE + value_count++;
    pthread_mutex_unlock(&lock);
    return CUDA_SUCCESS;
}

int sg_conditionals_are_used(CUgraph graph)
{
    int used = 1;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < value_count; i++) {
        used &= values[i].graph != graph || values[i].used;
    }
    pthread_mutex_unlock(&lock);
    return used;
}

/* A launchable copy may outlive the graph, so its handles go on to mean something: only the graph is
 * forgotten, lest another at the same address be taken for it. */
void sg_conditionals_forget(CUgraph graph)
{
    static struct CUgraph_st nobodys;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < value_count; i++) {
        if (values[i].graph == graph) {
            values[i].graph = &nobodys;
        }
    }
    pthread_mutex_unlock(&lock);
}

/* ---- nodes ---- */

#define ELSE_AND_SWITCH \
    12080 /* the version of CUDA that brought them; 12.3 had only `if` and `while` */

static int is_size_right(const CUDA_CONDITIONAL_NODE_PARAMS *params)
{
    int is_newer = sg_state->machine.driver_version >= ELSE_AND_SWITCH;
    switch (params->type) {
    case CU_GRAPH_COND_TYPE_IF:
        return params->size == 1 || (is_newer && params->size == 2);
    case CU_GRAPH_COND_TYPE_WHILE:
        return params->size == 1;
    case CU_GRAPH_COND_TYPE_SWITCH:
        return is_newer && params->size > 0;
    }
    return 0;
}

static int use(uint64_t handle)
{
    pthread_mutex_lock(&lock);
    struct value *value = value_of(handle);
    if (value) {
        value->used = 1;
    }
    pthread_mutex_unlock(&lock);
    return value != NULL;
}

CUresult sg_conditional_add(CUgraphNode *out, CUgraph graph, const CUgraphNode *depends,
                            size_t count, CUDA_CONDITIONAL_NODE_PARAMS *params)
{
    SG_TRY(sg_graph_takes(out, graph, depends, count));
    if (!is_size_right(params) || !use(params->handle)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    struct sg_conditional *condition = sg_resize(NULL, sizeof *condition);
    *condition = (struct sg_conditional){.handle = params->handle,
                                         .type = params->type,
                                         .size = params->size,
                                         .context = params->ctx};
    condition->bodies = sg_resize(NULL, params->size * sizeof(CUgraph));
    for (unsigned i = 0; i < params->size; i++) {
        condition->bodies[i] = sg_graph_new();
        condition->bodies[i]->owned = 1;
    }
    struct sg_op *op = sg_op_new(SG_OP_CONDITIONAL);
    op->conditional = condition;
    params->phGraph_out = condition->bodies;
    *out = sg_graph_add(graph, CU_GRAPH_NODE_TYPE_CONDITIONAL, op, depends, count);
    return CUDA_SUCCESS;
}

struct sg_conditional *sg_conditional_copy(const struct sg_conditional *condition)
{
    struct sg_conditional *copy = sg_resize(NULL, sizeof *copy);
    *copy = *condition;
    copy->orders = NULL;
    copy->bodies = sg_resize(NULL, condition->size * sizeof(CUgraph));
    for (unsigned i = 0; i < condition->size; i++) {
        copy->bodies[i] = sg_graph_copy(condition->bodies[i]);
        copy->bodies[i]->owned = 1;
    }
    return copy;
}

void sg_conditional_free(struct sg_conditional *condition)
{
    for (unsigned i = 0; i < condition->size; i++) {
        if (condition->orders) {
            sg_graph_order_free(&condition->orders[i]);
        }
        sg_graph_free(condition->bodies[i]);
    }
    free(condition->orders);
    free(condition->bodies);
    free(condition);
}

void sg_conditional_describe(const struct sg_conditional *condition,
                             CUDA_CONDITIONAL_NODE_PARAMS *params)
{
    *params = (CUDA_CONDITIONAL_NODE_PARAMS){.handle = condition->handle,
                                             .type = condition->type,
                                             .size = condition->size,
                                             .phGraph_out = condition->bodies,
                                             .ctx = condition->context};
}

int sg_graph_has_conditionals(CUgraph graph)
{
    for (CUgraphNode node = graph->first; node; node = node->next) {
        if (node->type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
            return 1;
        }
    }
    return 0;
}

/* ---- launching ---- */

static int may_be_in_body(CUgraphNodeType type)
{
    return type == CU_GRAPH_NODE_TYPE_KERNEL || type == CU_GRAPH_NODE_TYPE_EMPTY ||
           type == CU_GRAPH_NODE_TYPE_GRAPH || type == CU_GRAPH_NODE_TYPE_MEMSET ||
           type == CU_GRAPH_NODE_TYPE_MEMCPY || type == CU_GRAPH_NODE_TYPE_CONDITIONAL;
}

int sg_conditional_prepare(struct sg_conditional *condition)
{
    condition->orders = calloc(condition->size, sizeof *condition->orders);
    if (!condition->orders) {
        abort();
    }
    for (unsigned i = 0; i < condition->size; i++) {
        struct sg_graph_order *order = &condition->orders[i];
        if (sg_graph_order_make(order, condition->bodies[i]) != 0) {
            return -1;
        }
        for (size_t j = 0; j < order->count; j++) {
            if (!may_be_in_body(order->nodes[j]->type)) {
                return -1;
            }
        }
    }
    return 0;
}

CUgraphNode sg_conditional_find(const struct sg_conditional *condition, CUgraphNode origin)
{
    CUgraphNode found = NULL;
    for (unsigned i = 0; i < condition->size && !found && condition->orders; i++) {
        found = sg_graph_order_find(&condition->orders[i], origin);
    }
    return found;
}

void sg_conditional_begin(const struct sg_conditional *condition)
{
    pthread_mutex_lock(&lock);
    struct value *value = value_of(condition->handle);
    if (value && value->assigns) {
        value->now = value->initial;
    }
    pthread_mutex_unlock(&lock);
    for (unsigned i = 0; i < condition->size; i++) {
        const struct sg_graph_order *order = &condition->orders[i];
        for (size_t j = 0; j < order->count; j++) {
            if (order->nodes[j]->type == CU_GRAPH_NODE_TYPE_CONDITIONAL) {
                sg_conditional_begin(order->nodes[j]->op->conditional);
            }
        }
    }
}

static void run_body(const struct sg_conditional *condition, unsigned body, CUstream stream)
{
    const struct sg_graph_order *order = &condition->orders[body];
    for (size_t i = 0; i < order->count; i++) {
        if (order->nodes[i]->op && !order->nodes[i]->disabled) {
            sg_op_count(order->nodes[i]->op);
        }
    }
    sg_graph_order_run(order, stream, NULL, 0);
}

void sg_conditional_run(const struct sg_conditional *condition, CUstream stream)
{
    unsigned value = get(condition->handle);
    switch (condition->type) {
    case CU_GRAPH_COND_TYPE_IF:
        if (value || condition->size == 2) {
            run_body(condition, value ? 0 : 1, stream);
        }
        return;
    case CU_GRAPH_COND_TYPE_WHILE:
        while (get(condition->handle) && !stream->context->broken && !stream->context->destroyed) {
            run_body(condition, 0, stream);
        }
        return;
    case CU_GRAPH_COND_TYPE_SWITCH:
        if (value < condition->size) {
            run_body(condition, value, stream);
        }
        return;
    }
}
