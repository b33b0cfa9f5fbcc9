/* All captures that are open: for the two files that deal with them. */
#ifndef SIMGPU_CAPTURES_H
#define SIMGPU_CAPTURES_H

#include "simgpu/capture.h"

struct sg_captures {
    pthread_mutex_t lock; /* of what they are, who takes part, and whether they are still valid */
    struct sg_capture *open;
    unsigned count; /* read without the lock where none is the common case */
    uint64_t next_id;
};
extern struct sg_captures sg_captures;

/* sg_capture_refuse, with the lock held. */
CUresult sg_captures_refuse(CUstream stream, CUresult why);

#endif
