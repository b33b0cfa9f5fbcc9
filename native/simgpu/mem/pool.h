/* Memory pools: device memory that is allocated and freed in the order of streams.
 *
 * A pool has segments, each a chunk at an address. A segment is divided into pieces without gaps; a piece
 * is in use or free. A piece that was freed in a stream is free at once for later work of that stream, and
 * for all other work when the stream has reached that point.
 *
 * The pool's lock guards its objects. It is taken before the lock of the map of ranges.
 */
#ifndef SIMGPU_POOL_H
#define SIMGPU_POOL_H

#include <pthread.h>
#include <stdint.h>

#include "cuda/cuda_calls.h"
#include "simgpu/shared/profile.h"

struct sg_chunk;
struct sg_segment;

struct sg_piece {
    struct sg_piece *next, *previous; /* in the segment, by address */
    struct sg_segment *segment;
    uint64_t base, size;
    int used;
    /* Of a free piece: it is free after this work of this stream, or (NULL) now. */
    CUstream stream;
    uint64_t number;
};

struct sg_segment {
    struct sg_segment *next;
    CUmemoryPool pool;
    uint64_t base, size;
    struct sg_chunk *chunk;
    struct sg_piece *first;
};

struct CUmemPoolHandle_st {
    CUmemoryPool next; /* of all */
    unsigned gpu;
    int is_default, is_imported;
    int dying; /* destroyed by the program; its memory goes with the last allocation */
    CUmemPoolProps props;
    int may_reuse[4]; /* by enum CUmemPool_attribute, 1 to 3 */
    CUmemAccess_flags access[SG_DEVICES_MAX];
    uint64_t threshold_bytes;
    uint64_t reserved_bytes, reserved_high, used_bytes, used_high;
    uint64_t number; /* other processes know it by */
    pthread_mutex_t lock;
    struct sg_segment *segments;
};

/* Returns the pool, or NULL if there is no such handle. */
CUmemoryPool sg_pool(CUmemoryPool handle);
CUmemoryPool sg_pool_new(unsigned gpu, const CUmemPoolProps *props);
/* The default pool of a GPU, and the pool that cuMemAllocAsync uses there. */
CUmemoryPool sg_pool_default(unsigned gpu);
CUmemoryPool sg_pool_current(unsigned gpu);
void sg_pool_set_current(CUmemoryPool pool);
void sg_pool_unset_current(CUmemoryPool pool); /* does nothing if another pool is current */
/* Walks along all pools, from NULL to NULL. */
CUmemoryPool sg_pool_next(CUmemoryPool pool);

#endif
