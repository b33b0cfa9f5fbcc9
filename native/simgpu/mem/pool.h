/* Memory pools: device memory that is allocated and freed in the order of streams.
 *
 * A pool has segments, each of them a chunk at an address. A segment is divided into pieces without
 * gaps; a piece is in use, or free. What was freed in a stream is free for work that follows in
 * that stream at once, and for everybody when the stream has got there.
 *
 * A pool's objects are under its lock, which is taken before the address map's.
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
    /* Free: after this work of this stream; NULL: at any time. */
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
    int dying; /* destroyed by the program, and gone with its last allocation */
    CUmemPoolProps props;
    int may_reuse[4]; /* by enum CUmemPool_attribute, 1 to 3 */
    CUmemAccess_flags access[SG_DEVICES_MAX];
    uint64_t threshold_bytes;
    uint64_t reserved_bytes, reserved_high, used_bytes, used_high;
    uint64_t number; /* other processes know it by */
    pthread_mutex_t lock;
    struct sg_segment *segments;
};

/* A live pool of the program's, or NULL. */
CUmemoryPool sg_pool(CUmemoryPool handle);
CUmemoryPool sg_pool_new(unsigned gpu, const CUmemPoolProps *props);
/* The default pool of a GPU, and the one that allocations without a pool's name come from. */
CUmemoryPool sg_pool_default(unsigned gpu);
CUmemoryPool sg_pool_current(unsigned gpu);
void sg_pool_set_current(CUmemoryPool pool);
void sg_pool_unset_current(CUmemoryPool pool); /* unless it is another */
/* All of them, one after the other, starting with NULL. */
CUmemoryPool sg_pool_next(CUmemoryPool pool);

#endif
