/* Objects of the program that live as long as there are references to them: its own, or its graphs'. */
#ifndef SIMGPU_USER_OBJECT_H
#define SIMGPU_USER_OBJECT_H

#include <stddef.h>

#include "cuda/cuda_calls.h"

/* The objects that a graph holds, and how many references to each it has. */
struct sg_held_objects {
    struct sg_held {
        CUuserObject object;
        unsigned count;
    } *at;
    size_t count;
};

/* 0: no memory. */
CUuserObject sg_user_object_new(void *data, CUhostFn destroy, unsigned refs);
void sg_user_object_ref(CUuserObject object, unsigned count);
/* -1: there is no such object, or it has fewer. The last one calls the program's function. */
int sg_user_object_unref(CUuserObject object, unsigned count);

/* References that the caller has become the list's. */
void sg_held_objects_add(struct sg_held_objects *list, CUuserObject object, unsigned count);
/* References that the list has become the caller's. -1: it has no so many. */
int sg_held_objects_remove(struct sg_held_objects *list, CUuserObject object, unsigned count);
/* One reference more for each object of another list. */
void sg_held_objects_copy(struct sg_held_objects *list, const struct sg_held_objects *from);
void sg_held_objects_release(struct sg_held_objects *list);

#endif
