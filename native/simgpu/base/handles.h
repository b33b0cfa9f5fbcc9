/* The addresses of live objects, and the type of each. */
#ifndef SIMGPU_HANDLES_H
#define SIMGPU_HANDLES_H

enum sg_type {
    SG_CONTEXT_TYPE = 1,
    SG_STREAM,
    SG_EVENT,
    SG_MODULE,
    SG_LIBRARY,
    SG_FUNCTION,
    SG_CHUNK,
    SG_GRAPH,
    SG_GRAPH_NODE,
    SG_GRAPH_EXEC,
    SG_POOL,
    SG_USER_OBJECT,
    SG_ARRAY,
    SG_MIPMAPPED_ARRAY,
    SG_MULTICAST,
};

void sg_handle_add(const void *object, enum sg_type type);
int sg_handle_is(const void *object, enum sg_type type);
int sg_handle_remove(const void *object,
                     enum sg_type type); /* returns 1 if it was a handle of this type */

#endif
