/* Words in memory that a stream writes, or waits for. */
#ifndef SIMGPU_MEMOPS_H
#define SIMGPU_MEMOPS_H

#include "simgpu/stream/op.h"

struct sg_shared_event;

extern const struct sg_op_kind sg_kind_memops;

/* Checks what the program gave. */
CUresult sg_memops_op(struct sg_op **out, const CUstreamBatchMemOpParams *items, unsigned count);
/* Writes the word of a shared event, or waits until it has the value. The work holds the event. */
struct sg_op *sg_memops_of_event(struct sg_shared_event *event, CUstreamBatchMemOpType operation,
                                 uint64_t value);

#endif
