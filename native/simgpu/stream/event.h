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
    /* Of a record in a capture: the stream's last nodes at that point. */
    struct sg_capture *capture;
    CUgraphNode *nodes;
    size_t node_count;
};

struct CUevent_st {
    CUcontext context;
    unsigned flags;
    pthread_mutex_t lock;
    struct sg_record *record;       /* the latest; NULL before the first */
    struct sg_shared_event *shared; /* replaces it for an event of several processes */
};

/* Work that notes when the stream reaches op->record. */
extern const struct sg_op_kind sg_kind_record;

struct sg_record *sg_event_record_of(CUevent event);                   /* a reference, or NULL */
struct sg_record *sg_event_new_record(CUevent event, CUstream stream); /* two references */

void sg_record_unref(struct sg_record *record);
/* Marks a record as done while the graph that it is part of still runs. */
void sg_record_done(struct sg_record *record);
/* Waits for it. */
void sg_record_wait(struct sg_record *record);

#endif
