/* Words in memory that a stream writes, or waits for. */
#ifndef SIMGPU_MEMOPS_H
#define SIMGPU_MEMOPS_H

#include "simgpu/stream/op.h"

struct sg_shared_event;

extern const struct sg_op_kind sg_kind_memops;

/* Makes the operations as work and checks the program's parameters. */
CUresult sg_memops_op(struct sg_op **out, const CUstreamBatchMemOpParams *items, unsigned count);
/* Makes work that writes the word of a shared event, or that waits for a value. The work holds a reference. */
struct sg_op *sg_memops_of_event(struct sg_shared_event *event, CUstreamBatchMemOpType operation,
                                 uint64_t value);

#endif
