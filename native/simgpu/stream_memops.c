/* Words in memory that a stream writes, or waits for. */
#include <string.h>

#include "simgpu/address.h"
#include "simgpu/resize.h"
#include "simgpu/stream.h"

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
    *out = sg_op_new(SG_OP_MEMOPS);
    (*out)->memops.items = sg_resize(NULL, count * sizeof *items);
    (*out)->memops.count = count;
    memcpy((*out)->memops.items, items, count * sizeof *items);
    return CUDA_SUCCESS;
}

CUresult cuStreamBatchMemOp_v2(CUstream handle, unsigned int count, CUstreamBatchMemOpParams *items,
                               unsigned int flags)
{
    CUstream stream;
    struct sg_op *op;
    SG_TRY(sg_stream_of(handle, &stream));
    if (flags) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    SG_TRY(sg_memops_op(&op, items, count));
    return sg_submit(stream, op);
}

CUresult cuStreamBatchMemOp(CUstream stream, unsigned int count, CUstreamBatchMemOpParams *items,
                            unsigned int flags)
{
    return cuStreamBatchMemOp_v2(stream, count, items, flags);
}

#define ONE(name, type, member, kind)                                                     \
    CUresult name(CUstream stream, CUdeviceptr address, type value, unsigned int flags)   \
    {                                                                                     \
        CUstreamBatchMemOpParams item = {                                                 \
            .waitValue = {                                                                \
                .operation = kind, .address = address, .member = value, .flags = flags}}; \
        return cuStreamBatchMemOp_v2(stream, 1, &item, 0);                                \
    }

ONE(cuStreamWaitValue32, cuuint32_t, value, CU_STREAM_MEM_OP_WAIT_VALUE_32)
ONE(cuStreamWaitValue32_v2, cuuint32_t, value, CU_STREAM_MEM_OP_WAIT_VALUE_32)
ONE(cuStreamWaitValue64, cuuint64_t, value64, CU_STREAM_MEM_OP_WAIT_VALUE_64)
ONE(cuStreamWaitValue64_v2, cuuint64_t, value64, CU_STREAM_MEM_OP_WAIT_VALUE_64)
ONE(cuStreamWriteValue32, cuuint32_t, value, CU_STREAM_MEM_OP_WRITE_VALUE_32)
ONE(cuStreamWriteValue32_v2, cuuint32_t, value, CU_STREAM_MEM_OP_WRITE_VALUE_32)
ONE(cuStreamWriteValue64, cuuint64_t, value64, CU_STREAM_MEM_OP_WRITE_VALUE_64)
ONE(cuStreamWriteValue64_v2, cuuint64_t, value64, CU_STREAM_MEM_OP_WRITE_VALUE_64)
