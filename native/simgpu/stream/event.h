/* Events, and their records: points in streams that can be waited for and timed. */
#ifndef SIMGPU_EVENT_H
#define SIMGPU_EVENT_H

#include "simgpu/stream/op.h"
#include "simgpu/stream/stream.h"

struct sg_shared_event;

/* A point in a stream that an event stands for. */
struct sg_record {
    int refs;
    CUstream stream;
    uint64_t number, time_ns;
    int timed;
    /* Recorded while capturing: stands for the nodes that were last then. */
    struct sg_capture *capture;
    CUgraphNode *nodes;
    size_t node_count;
};

struct CUevent_st {
    CUcontext context;
    unsigned flags;
    pthread_mutex_t lock;
    struct sg_record *record;       /* the latest; NULL before the first */
    struct sg_shared_event *shared; /* instead of it, where other processes may know the event */
};

/* Work that notes when the stream got to the record: op->record. */
extern const struct sg_op_kind sg_kind_record;

struct sg_record *sg_event_record_of(CUevent event);                   /* a reference, or NULL */
struct sg_record *sg_event_new_record(CUevent event, CUstream stream); /* two references */

void sg_record_unref(struct sg_record *record);
/* What it stands for is done, although the work that it is a part of goes on. */
void sg_record_done(struct sg_record *record);
/* Waits for it. */
void sg_record_wait(struct sg_record *record);

#endif
