/* Physical device memory: what cuMemCreate makes and cuMemAlloc uses.
 *
 * The bytes of all chunks of a process lie in its arena: one descriptor for all of them,
 * because programs create tens of thousands of chunks. What another process gets is a small
 * token that says where to look.
 */
#ifndef SIMGPU_CHUNK_H
#define SIMGPU_CHUNK_H

#include "cuda/cuda_calls.h"

struct sg_chunk {
    unsigned gpu;
    int refs;     /* handles and mappings */
    int handles;  /* of these, those that the program holds */
    int file;     /* where the bytes are: our own arena, or another process's */
    int own_file; /* close it in the end */
    int shared;   /* entered in the table of shared memory */
    uint64_t inode, offset, bytes;
    uint32_t serial; /* once shared: tells it from what was there before */
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

/* Takes memory of the device: CUDA_ERROR_OUT_OF_MEMORY when there is none. One reference, no handle. */
CUresult sg_chunk_create(struct sg_chunk **out, unsigned gpu, uint64_t bytes,
                         const CUmemAllocationProp *prop);
void sg_chunk_ref(struct sg_chunk *chunk);
void sg_chunk_unref(struct sg_chunk *chunk);

CUresult sg_chunk_map(struct sg_chunk *chunk, uint64_t address, uint64_t bytes, uint64_t offset,
                      int protection);
/* Before something else is put there. */
void sg_chunk_unmap(struct sg_chunk *chunk, uint64_t address, uint64_t bytes, uint64_t offset);

CUresult sg_chunk_share(struct sg_chunk *chunk, struct sg_token *token);
CUresult sg_chunk_adopt(struct sg_chunk **out, const struct sg_token *token);

/* Bytes beside chunks: what a context takes, may be negative. */
CUresult sg_charge_context(unsigned gpu, int64_t bytes);

#endif
