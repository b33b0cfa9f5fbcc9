/* Events that several processes know: what was submitted and what is done stands in a page of both. */
#ifndef SIMGPU_SHARED_EVENT_H
#define SIMGPU_SHARED_EVENT_H

#include <stdint.h>

#include "cuda/cuda_calls.h"

struct sg_shared_event;

struct sg_shared_event *sg_shared_event_new(void); /* NULL: no memory */
void sg_shared_event_ref(struct sg_shared_event *event);
void sg_shared_event_unref(struct sg_shared_event *event); /* NULL is none */

/* The number of one record more; work writes it into the word when it is done. */
uint64_t sg_shared_event_next(struct sg_shared_event *event);
uint64_t sg_shared_event_recorded(const struct sg_shared_event *event); /* the latest number */
/* Where the number of the latest record that is done stands: 64 bits. */
uint64_t sg_shared_event_word(const struct sg_shared_event *event);
int sg_shared_event_done(struct sg_shared_event *event);
void sg_shared_event_wait(struct sg_shared_event *event);

void sg_shared_event_handle(const struct sg_shared_event *event, CUipcEventHandle *handle);
/* NULL: it is no handle of an event that is there. */
struct sg_shared_event *sg_shared_event_open(const CUipcEventHandle *handle);

#endif
