/* Objects of the program that live as long as a graph; here: until they are released. */
#include <stdlib.h>

#include "simgpu/driver.h"

struct CUuserObject_st {
    unsigned refs;
    void *data;
    CUhostFn destroy;
};

CUresult cuUserObjectCreate(CUuserObject *out, void *data, CUhostFn destroy, unsigned int refs,
                            unsigned int flags)
{
    SG_ENTER();
    if (!out || !destroy || !refs || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    CUuserObject object = calloc(1, sizeof *object);
    if (!object) {
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *object = (struct CUuserObject_st){refs, data, destroy};
    sg_handle_add(object, SG_USER_OBJECT);
    *out = object;
    return CUDA_SUCCESS;
}

CUresult cuUserObjectRetain(CUuserObject object, unsigned int count)
{
    SG_ENTER();
    if (!sg_handle_is(object, SG_USER_OBJECT)) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    __atomic_add_fetch(&object->refs, count, __ATOMIC_ACQ_REL);
    return CUDA_SUCCESS;
}

CUresult cuUserObjectRelease(CUuserObject object, unsigned int count)
{
    SG_ENTER();
    if (!sg_handle_is(object, SG_USER_OBJECT) || count > object->refs) {
        return CUDA_ERROR_INVALID_VALUE;
    }
    if (__atomic_sub_fetch(&object->refs, count, __ATOMIC_ACQ_REL) > 0) {
        return CUDA_SUCCESS;
    }
    sg_handle_remove(object, SG_USER_OBJECT);
    object->destroy(object->data);
    free(object);
    return CUDA_SUCCESS;
}
