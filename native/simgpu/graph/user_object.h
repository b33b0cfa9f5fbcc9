/* User objects: they live as long as the program or one of its graphs has a reference. */
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

/* Returns NULL if there is no memory. */
CUuserObject sg_user_object_new(void *data, CUhostFn destroy, unsigned refs);
void sg_user_object_ref(CUuserObject object, unsigned count);
/* Releases references; the last one calls the program's destructor. Returns -1 if there is no such object
 * or it has fewer references. */
int sg_user_object_unref(CUuserObject object, unsigned count);

/* Moves references from the caller to the list. */
void sg_held_objects_add(struct sg_held_objects *list, CUuserObject object, unsigned count);
/* Moves references from the list to the caller. Returns -1 if the list has fewer. */
int sg_held_objects_remove(struct sg_held_objects *list, CUuserObject object, unsigned count);
/* Adds a new reference to each object of another list. */
void sg_held_objects_copy(struct sg_held_objects *list, const struct sg_held_objects *from);
void sg_held_objects_release(struct sg_held_objects *list);

#endif
