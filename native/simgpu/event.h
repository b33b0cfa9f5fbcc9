#ifndef SIMGPU_EVENT_H
#define SIMGPU_EVENT_H

#include "simgpu/stream.h"

struct CUevent_st {
    CUcontext context;
    unsigned flags;
    pthread_mutex_t lock;
    struct sg_record *record;       /* the latest; NULL before the first */
    struct sg_shared_event *shared; /* instead of it, where other processes may know the event */
};

struct sg_record *sg_event_record_of(CUevent event);                   /* a reference, or NULL */
struct sg_record *sg_event_new_record(CUevent event, CUstream stream); /* two references */

#endif
