#include "simgpu/graph/user_object.h"

#include <stdlib.h>

#include "simgpu/base/handles.h"
#include "simgpu/base/resize.h"

struct CUuserObject_st {
    unsigned refs;
    void *data;
    CUhostFn destroy;
};

CUuserObject sg_user_object_new(void *data, CUhostFn destroy, unsigned refs)
{
    CUuserObject object = calloc(1, sizeof *object);
    if (object) {
        *object = (struct CUuserObject_st){refs, data, destroy};
        sg_handle_add(object, SG_USER_OBJECT);
    }
    return object;
}

void sg_user_object_ref(CUuserObject object, unsigned count)
{
    __atomic_add_fetch(&object->refs, count, __ATOMIC_ACQ_REL);
}

int sg_user_object_unref(CUuserObject object, unsigned count)
{
    if (!sg_handle_is(object, SG_USER_OBJECT) || count > object->refs) {
        return -1;
    }
    if (__atomic_sub_fetch(&object->refs, count, __ATOMIC_ACQ_REL) == 0) {
        sg_handle_remove(object, SG_USER_OBJECT);
        object->destroy(object->data);
        free(object);
    }
    return 0;
}

/* ---- held by graphs ---- */

static struct sg_held *find(const struct sg_held_objects *list, CUuserObject object)
{
    for (size_t i = 0; i < list->count; i++) {
        if (list->at[i].object == object) {
            return &list->at[i];
        }
    }
    return NULL;
}

void sg_held_objects_add(struct sg_held_objects *list, CUuserObject object, unsigned count)
{
    struct sg_held *held = find(list, object);
    if (held) {
        held->count += count;
        return;
    }
    list->at = sg_resize(list->at, (list->count + 1) * sizeof *list->at);
    list->at[list->count++] = (struct sg_held){object, count};
}

int sg_held_objects_remove(struct sg_held_objects *list, CUuserObject object, unsigned count)
{
    struct sg_held *held = find(list, object);
    if (!held || held->count < count) {
        return -1;
    }
    held->count -= count;
    if (!held->count) {
        *held = list->at[--list->count];
    }
    return 0;
}

void sg_held_objects_copy(struct sg_held_objects *list, const struct sg_held_objects *from)
{
    for (size_t i = 0; i < from->count; i++) {
        sg_user_object_ref(from->at[i].object, 1);
        sg_held_objects_add(list, from->at[i].object, 1);
    }
}

void sg_held_objects_release(struct sg_held_objects *list)
{
    for (size_t i = 0; i < list->count; i++) {
        sg_user_object_unref(list->at[i].object, list->at[i].count);
    }
    free(list->at);
    *list = (struct sg_held_objects){0};
}
