#include "simgpu/mem/array.h"

#include "simgpu/base/handles.h"

CUarray sg_array(CUarray handle) { return sg_handle_is(handle, SG_ARRAY) ? handle : NULL; }

uint64_t sg_array_has(CUarray handle, size_t x, size_t y, size_t z, size_t width, size_t height,
                      size_t depth)
{
    CUarray array = sg_array(handle);
    if (!array) {
        return 0;
    }
    size_t rows = array->form.Height ? array->form.Height : 1;
    size_t layers = array->form.Depth ? array->form.Depth : 1;
    int has = x + width <= array->pitch && y + height <= rows && z + depth <= layers;
    return has ? array->base : 0;
}
