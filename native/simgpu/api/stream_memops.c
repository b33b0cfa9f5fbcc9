/* The entry points of stream memory operations: a stream writes words, or waits for them. */
#include "simgpu/base/entry.h"
#include "simgpu/capture/submit.h"
#include "simgpu/exec/memops.h"
#include "simgpu/stream/op.h"
#include "simgpu/stream/stream.h"

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
