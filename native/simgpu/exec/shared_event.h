/* Events of several processes. A shared page holds the number of records submitted and the number done. */
#ifndef SIMGPU_SHARED_EVENT_H
#define SIMGPU_SHARED_EVENT_H

#include <stdint.h>

#include "cuda/cuda_calls.h"

struct sg_shared_event;

struct sg_shared_event *sg_shared_event_new(void); /* returns NULL if there is no memory */
void sg_shared_event_ref(struct sg_shared_event *event);
void sg_shared_event_unref(struct sg_shared_event *event); /* NULL is allowed */

/* Counts one record more and returns its number. The record's work writes the number into the word. */
uint64_t sg_shared_event_next(struct sg_shared_event *event);
uint64_t
sg_shared_event_recorded(const struct sg_shared_event *event); /* the number of the latest record */
/* The address of the word: the number of the latest record that is done, in 64 bits. */
uint64_t sg_shared_event_word(const struct sg_shared_event *event);
int sg_shared_event_done(struct sg_shared_event *event);
void sg_shared_event_wait(struct sg_shared_event *event);

void sg_shared_event_handle(const struct sg_shared_event *event, CUipcEventHandle *handle);
/* Returns NULL if the handle names no live event. */
struct sg_shared_event *sg_shared_event_open(const CUipcEventHandle *handle);

#endif
