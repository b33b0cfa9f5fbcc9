/* Chunks: physical device memory, as cuMemCreate makes and cuMemAlloc uses it.
 *
 * The bytes of all chunks of a process lie in its granule store, which is one file descriptor, because
 * programs create tens of thousands of chunks. Another process gets a small token that names the place.
 */
#ifndef SIMGPU_CHUNK_H
#define SIMGPU_CHUNK_H

#include "cuda/cuda_calls.h"

struct sg_chunk {
    unsigned gpu;
    int refs;     /* handles and mappings */
    int handles;  /* references that are handles of the program */
    int file;     /* holds the bytes: our granule store, or another process's */
    int own_file; /* close it in the end */
    int shared;   /* entered in the table of shared memory */
    uint64_t inode, offset, bytes;
    uint32_t serial; /* of the export; another one at the same place differs */
    struct sg_chunk *next_shared;
    CUmemAllocationProp prop;
};

struct sg_token { /* also fits into an IPC handle */
    uint32_t magic, serial;
    uint32_t pid;
    int32_t file;
    uint64_t inode, offset, bytes;
    uint32_t gpu;
    uint32_t delta; /* IPC: where the allocation begins in the chunk */
};

/* Allocates device memory, with one reference and no handle. Returns CUDA_ERROR_OUT_OF_MEMORY if there is
 * none. */
CUresult sg_chunk_create(struct sg_chunk **out, unsigned gpu, uint64_t bytes,
                         const CUmemAllocationProp *prop);
void sg_chunk_ref(struct sg_chunk *chunk);
void sg_chunk_unref(struct sg_chunk *chunk);

CUresult sg_chunk_map(struct sg_chunk *chunk, uint64_t address, uint64_t bytes, uint64_t offset,
                      int protection);
/* Call it before anything else is mapped there. */
void sg_chunk_unmap(struct sg_chunk *chunk, uint64_t address, uint64_t bytes, uint64_t offset);

CUresult sg_chunk_share(struct sg_chunk *chunk, struct sg_token *token);
CUresult sg_chunk_adopt(struct sg_chunk **out, const struct sg_token *token);

/* Charges bytes that belong to no chunk, such as a context's; negative bytes are given back. */
CUresult sg_charge_context(unsigned gpu, int64_t bytes);

#endif
