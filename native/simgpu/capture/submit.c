#include "simgpu/capture/submit.h"

#include "simgpu/base/entry.h"
#include "simgpu/capture/capture.h"
#include "simgpu/stream/capture_rules.h"
#include "simgpu/stream/stream.h"
#include "simgpu/stream/stream_queue.h"

CUresult sg_submit(CUstream stream, struct sg_op *op)
{
    uint64_t number;
    if (stream->capture) {
        return sg_capture_op(stream, op);
    }
    CUresult result = sg_capture_forbids_legacy(stream);
    if (result) {
        sg_op_free(op);
    }
    return result ? result : sg_stream_enqueue(stream, op, &number);
}

CUresult sg_submit_and_wait(CUstream stream, struct sg_op *op)
{
    uint64_t number;
    if (stream->capture) {
        sg_op_free(op);
        return sg_capture_refuse(stream, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
    CUresult result = sg_capture_forbids_legacy(stream);
    if (result) {
        sg_op_free(op);
        return result;
    }
    SG_TRY(sg_stream_enqueue(stream, op, &number));
    sg_stream_wait(stream, number);
    return stream->context->sticky_error;
}
