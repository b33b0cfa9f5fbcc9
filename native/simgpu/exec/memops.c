#include "simgpu/exec/memops.h"

#include <stdlib.h>
#include <string.h>

#include "simgpu/base/entry.h"
#include "simgpu/base/resize.h"
#include "simgpu/context/context.h"
#include "simgpu/exec/shared_event.h"
#include "simgpu/exec/stream_exec.h"
#include "simgpu/mem/address.h"
#include "simgpu/shared/clock.h"
#include "simgpu/shared/sleep.h"
#include "simgpu/stream/stream.h"

#define POLL_NS (20 * SG_US)

/* ---- as work ---- */

struct word {
    const CUstreamBatchMemOpParams *item;
    int done;
};

static int is_met(uint64_t now, uint64_t wanted, unsigned flags, int wide)
{
    switch (flags & 3) {
    case CU_STREAM_WAIT_VALUE_GEQ: /* in a circle, as the API says */
        return wide ? (int64_t)(now - wanted) >= 0
                    : (int32_t)((uint32_t)now - (uint32_t)wanted) >= 0;
    case CU_STREAM_WAIT_VALUE_EQ:
        return wide ? now == wanted : (uint32_t)now == (uint32_t)wanted;
    case CU_STREAM_WAIT_VALUE_AND:
        return (now & wanted) != 0;
    default:
        return (wide ? ~(now | wanted) : (uint32_t)~(now | wanted)) != 0;
    }
}

static void use_word(void *argument)
{
    struct word *word = argument;
    const struct CUstreamMemOpValueParams_moiety *value = &word->item->waitValue;
    uint64_t *wide = (uint64_t *)(uintptr_t)value->address;
    uint32_t *narrow = (uint32_t *)(uintptr_t)value->address;
    word->done = 1;
    switch (word->item->operation) {
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
        __atomic_store_n(narrow, value->value, __ATOMIC_RELEASE);
        return;
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        __atomic_store_n(wide, value->value64, __ATOMIC_RELEASE);
        return;
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
        word->done =
            is_met(__atomic_load_n(narrow, __ATOMIC_ACQUIRE), value->value, value->flags, 0);
        return;
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        word->done =
            is_met(__atomic_load_n(wide, __ATOMIC_ACQUIRE), value->value64, value->flags, 1);
        return;
    default:
        return;
    }
}

static void execute(struct sg_op *op, CUstream stream, uint64_t ready_ns)
{
    const struct sg_memops *values = &op->memops;
    CUcontext context = stream->context;
    (void)ready_ns;
    for (unsigned i = 0; i < values->count; i++) {
        struct word word = {&values->items[i], 0};
        while (!word.done && !context->sticky_error && !context->destroyed) {
            sg_run_guarded(stream, use_word, &word);
            if (!word.done) {
                sg_sleep_until(sg_now_ns() + POLL_NS);
            }
        }
    }
    stream->end_ns = sg_now_ns();
}

static void copy(struct sg_op *op)
{
    op->memops.items = sg_copied(op->memops.items, op->memops.count * sizeof *op->memops.items);
    if (op->memops.event) {
        sg_shared_event_ref(op->memops.event);
    }
}

static void release(struct sg_op *op)
{
    free(op->memops.items);
    sg_shared_event_unref(op->memops.event);
}

const struct sg_op_kind sg_kind_memops = {.name = "stream memory operation",
                                          .is_capturable = 1,
                                          .node_type = CU_GRAPH_NODE_TYPE_BATCH_MEM_OP,
                                          .leaves_compute = 1,
                                          .execute = execute,
                                          .copy = copy,
                                          .release = release};

/* ---- out of what the program says ---- */

static int is_wide(CUstreamBatchMemOpType type)
{
    return type == CU_STREAM_MEM_OP_WAIT_VALUE_64 || type == CU_STREAM_MEM_OP_WRITE_VALUE_64;
}

static CUresult check(const CUstreamBatchMemOpParams *item)
{
    const struct CUstreamMemOpValueParams_moiety *value = &item->waitValue;
    size_t bytes = is_wide(item->operation) ? 8 : 4;
    switch (item->operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
        if (value->flags & CU_STREAM_WAIT_VALUE_FLUSH) {
            return CUDA_ERROR_NOT_SUPPORTED; /* as CU_DEVICE_ATTRIBUTE_CAN_FLUSH_REMOTE_WRITES says */
        }
        if (value->flags > CU_STREAM_WAIT_VALUE_NOR) {
            return CUDA_ERROR_INVALID_VALUE;
        }
        break;
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
        if (value->flags & ~(unsigned)CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER) {
            return CUDA_ERROR_INVALID_VALUE;
        }
        break;
    case CU_STREAM_MEM_OP_BARRIER:
        return CUDA_SUCCESS;
    case CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES:
    case CU_STREAM_MEM_OP_ATOMIC_REDUCTION:
        return CUDA_ERROR_NOT_SUPPORTED;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    return value->address % bytes || (!sg_is_device_range(value->address, bytes) &&
                                      !sg_is_pinned(value->address, bytes))
               ? CUDA_ERROR_INVALID_VALUE
               : CUDA_SUCCESS;
}

CUresult sg_memops_op(struct sg_op **out, const CUstreamBatchMemOpParams *items, unsigned count)
{
    if (!items || !count || count > 256) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    for (unsigned i = 0; i < count; i++) {
        SG_TRY(check(&items[i]));
    }
    *out = sg_op_new(&sg_kind_memops);
    (*out)->memops.items = sg_resize(NULL, count * sizeof *items);
    (*out)->memops.count = count;
    memcpy((*out)->memops.items, items, count * sizeof *items);
    return CUDA_SUCCESS;
}

struct sg_op *sg_memops_of_event(struct sg_shared_event *event, CUstreamBatchMemOpType operation,
                                 uint64_t value)
{
    struct sg_op *op = sg_op_new(&sg_kind_memops);
    CUstreamBatchMemOpParams *item = sg_resize(NULL, sizeof *item);
    memset(item, 0, sizeof *item);
    item->operation = operation;
    item->waitValue.address = sg_shared_event_word(event);
    item->waitValue.value64 = value;
    item->waitValue.flags =
        operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 ? CU_STREAM_WAIT_VALUE_GEQ : 0;
    sg_shared_event_ref(event);
    op->memops = (struct sg_memops){.items = item, .count = 1, .event = event};
    return op;
}
