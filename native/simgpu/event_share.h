/* Events that several processes know: what was submitted and what is done stands in a page of both. */
#ifndef SIMGPU_EVENT_SHARE_H
#define SIMGPU_EVENT_SHARE_H

#include "simgpu/stream.h"

struct sg_shared_event;

struct sg_shared_event *sg_shared_event_new(void);         /* NULL: no memory */
void sg_shared_event_unref(struct sg_shared_event *event); /* NULL is none */

CUresult sg_shared_event_record(struct sg_shared_event *event, CUstream stream);
/* Holds up what comes later in the stream until all is done that has been recorded so far. */
CUresult sg_shared_event_hold(struct sg_shared_event *event, CUstream stream);
int sg_shared_event_done(struct sg_shared_event *event);
void sg_shared_event_wait(struct sg_shared_event *event);

void sg_shared_event_handle(const struct sg_shared_event *event, CUipcEventHandle *handle);
/* NULL: it is no handle of an event that is there. */
struct sg_shared_event *sg_shared_event_open(const CUipcEventHandle *handle);

#endif
