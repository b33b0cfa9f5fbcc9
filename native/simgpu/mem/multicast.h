/* Multicast objects: one range of addresses for memory of several GPUs.
 *
 * An object lies in a page of shared memory, so that another process can add its GPU and bind its memory. Memory
 * stays bound until it is unbound, or its process has no handle and no mapping of the object any more. */
#ifndef SIMGPU_MULTICAST_H
#define SIMGPU_MULTICAST_H

#include "cuda/cuda_calls.h"

struct sg_chunk;
struct sg_multicast;

/* The part of a chunk that is bound at an offset of the object. */
struct sg_multicast_part {
    uint64_t offset, bytes;
    struct sg_chunk *chunk;
    uint64_t chunk_offset;
};

/* Makes an object, with one reference and no handle. The properties are valid. */
CUresult sg_multicast_create(struct sg_multicast **out, const CUmulticastObjectProp *prop);
/* The object of a handle; NULL: it is none. */
struct sg_multicast *sg_multicast_of(CUmemGenericAllocationHandle handle);
/* Gives the program a handle for a reference, and takes one back. NULL: nothing is done. */
CUmemGenericAllocationHandle sg_multicast_give_handle(struct sg_multicast *object);
void sg_multicast_take_handle(struct sg_multicast *object);
void sg_multicast_ref(struct sg_multicast *object);
void sg_multicast_unref(struct sg_multicast *object);
uint64_t sg_multicast_bytes(const struct sg_multicast *object);

CUresult sg_multicast_add_device(struct sg_multicast *object, unsigned gpu);
/* Sleeps until all GPUs have been added. */
void sg_multicast_await_devices(const struct sg_multicast *object);
/* Binds memory of a GPU of the object, and unbinds what was bound there by one call. */
CUresult sg_multicast_bind(struct sg_multicast *object, const struct sg_multicast_part *part);
CUresult sg_multicast_unbind(struct sg_multicast *object, unsigned gpu, uint64_t offset,
                             uint64_t bytes);

/* A descriptor of the object, for other processes; and the object of such a descriptor, with one reference. */
CUresult sg_multicast_export(const struct sg_multicast *object, int *file);
CUresult sg_multicast_import(struct sg_multicast **out, int file);

/* Copies words from the memory of one GPU, or to it. Returns how many: it ends where the bound part ends. */
uint64_t sg_multicast_move(const struct sg_multicast *object, unsigned gpu, uint64_t offset,
                           uint64_t *words, uint64_t count, int writes);
int sg_multicast_has(const struct sg_multicast *object, unsigned gpu);

#endif
