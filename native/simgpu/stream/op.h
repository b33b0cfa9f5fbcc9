/* One piece of work, as it waits in a stream or lies in a graph. */
#ifndef SIMGPU_OP_H
#define SIMGPU_OP_H

#include <stddef.h>
#include <stdint.h>

#include "cuda/cuda_calls.h"
#include "simgpu/kernel.h"

struct sg_op;

/* One kind of work. Each kind is a constant in the file that carries it out. A function that is NULL does
 * nothing. */
struct sg_op_kind {
    const char *name;
    int is_capturable;         /* it can be captured as a node */
    CUgraphNodeType node_type; /* of this type */
    int leaves_compute;        /* others may have the compute units while it runs */
    int runs_after_error;      /* it runs in a context with a sticky error, too */
    void (*execute)(struct sg_op *op, CUstream stream, uint64_t ready_ns);
    void (*copy)(struct sg_op *op);    /* makes a copy own its parts */
    void (*release)(struct sg_op *op); /* frees what the work owns */
    void (*count)(const struct sg_op *op);
    void (*submitted)(
        struct sg_op *op); /* called with the context locked, once the number is known */
};

extern const struct sg_op_kind sg_kind_nothing;
extern const struct sg_op_kind sg_kind_wait; /* for other streams */

enum sg_direction { SG_H2D, SG_D2H, SG_D2D, SG_H2H, SG_P2P };

struct sg_copy {
    uint64_t dst, src;
    size_t width, height, depth; /* bytes, rows, slices */
    size_t dst_pitch, dst_slice; /* bytes from row to row, slice to slice */
    size_t src_pitch, src_slice;
    enum sg_direction direction;
    unsigned gpu, other_gpu; /* P2P: from the other */
    int pageable;
    void *staged; /* freed afterwards */
};

struct sg_memset {
    uint64_t dst;
    size_t width, height, pitch; /* elements, rows, bytes */
    unsigned value, element_bytes;
};

/* The attributes of cuLaunchKernelEx and of kernel nodes. */
#define SG_ATTRIBUTES 20
struct sg_attributes {
    unsigned set; /* a bit for each that was */
    CUlaunchAttributeValue values[SG_ATTRIBUTES];
};

struct sg_kernel_launch {
    CUfunction function;
    struct sg_attributes *attributes; /* NULL: none */
    struct simgpu_launch shape;
    void *values; /* copies of the parameters, one after the other */
    size_t bytes;
};

struct sg_shared_event;

/* Words in memory that are written, or waited for, one after the other. */
struct sg_memops {
    CUstreamBatchMemOpParams *items;
    unsigned count;
    struct sg_shared_event *event; /* the event that the words belong to; NULL: the program */
};

/* A graph launch. The records belong to the event record nodes of the graph, in their order. */
struct sg_graph_launch {
    CUgraphExec exec;
    struct sg_record **records;
    size_t record_count;
};

struct sg_conditional;

struct sg_op {
    const struct sg_op_kind *kind;
    struct sg_op *next;
    uint64_t number, submitted_ns;
    struct sg_wait {
        CUstream stream;
        uint64_t number;
    } *waits;
    size_t wait_count;
    union {
        struct sg_kernel_launch kernel;
        struct sg_copy copy;
        struct sg_memset memset;
        struct {
            CUhostFn call;
            void *data;
        } host;
        struct {
            CUstreamCallback call;
            void *data;
            CUstream stream;
        } callback;
        struct sg_record *record;
        struct sg_memops memops;
        struct sg_graph_launch graph;
        CUevent event; /* of an event record node, an event wait node */
        struct sg_conditional *conditional;
        uint64_t address; /* to be freed */
        struct {
            struct sg_graph_memory *memory;
            size_t memory_bytes; /* of it that an allocation is for */
        };
        struct {
            uint64_t address, bytes;
            int gpu;
        } prefetch;
    };
};

struct sg_op *sg_op_new(const struct sg_op_kind *kind);
struct sg_op *sg_op_copy(const struct sg_op *op); /* without its waits */
void sg_op_free(struct sg_op *op);
void sg_op_count(const struct sg_op *op); /* counts it for simgpu_counters() */
void sg_op_wait_for(struct sg_op *op, CUstream stream, uint64_t number);

/* Carries the work out on the calling thread, which belongs to the stream. */
void sg_op_execute(struct sg_op *op, CUstream stream, uint64_t ready_ns);

#endif
