/* One piece of work, as it waits in a stream or lies in a graph. */
#ifndef SIMGPU_OP_H
#define SIMGPU_OP_H

#include "simgpu/driver.h"

enum sg_op_kind {
    SG_OP_NOTHING,
    SG_OP_KERNEL,
    SG_OP_COPY,
    SG_OP_MEMSET,
    SG_OP_HOST,
    SG_OP_CALLBACK,
    SG_OP_RECORD,
    SG_OP_MEMOPS,
    SG_OP_GRAPH,
    SG_OP_FREE,
    SG_OP_PREFETCH,
    SG_OP_WAIT,
    SG_OP_GRAPH_ALLOC,
    SG_OP_GRAPH_FREE,
    SG_OP_EVENT_RECORD, /* in graphs only */
    SG_OP_EVENT_WAIT,
    SG_OP_CONDITIONAL,
};

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

/* What cuLaunchKernelEx and kernel nodes are told beside the shape. */
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

/* A point in a stream that an event stands for. */
struct sg_record {
    int refs;
    CUstream stream;
    uint64_t number, time_ns;
    int timed;
    /* Recorded while capturing: stands for the nodes that were last then. */
    struct sg_capture *capture;
    CUgraphNode *nodes;
    size_t node_count;
};

struct sg_shared_event;

/* Words in memory that are written, or waited for, one after the other. */
struct sg_memops {
    CUstreamBatchMemOpParams *items;
    unsigned count;
    struct sg_shared_event *event; /* whose words they are; NULL: the program's */
};

/* A graph that is launched; the records are those of its nodes that record events, in their order. */
struct sg_graph_launch {
    CUgraphExec exec;
    struct sg_record **records;
    size_t record_count;
};

struct sg_conditional;

struct sg_op {
    enum sg_op_kind kind;
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
        CUevent event; /* SG_OP_EVENT_RECORD, SG_OP_EVENT_WAIT */
        struct sg_conditional *conditional;
        uint64_t address; /* SG_OP_FREE */
        struct sg_graph_memory *memory;
        struct {
            uint64_t address, bytes;
            int gpu;
        } prefetch;
    };
};

struct sg_op *sg_op_new(enum sg_op_kind kind);
struct sg_op *sg_op_copy(const struct sg_op *op); /* without its waits */
void sg_op_free(struct sg_op *op);
void sg_op_count(const struct sg_op *op); /* for whoever watches what reaches the driver */
void sg_op_wait_for(struct sg_op *op, CUstream stream, uint64_t number);

/* Carries the work out on the calling thread, which belongs to the stream. */
void sg_op_execute(struct sg_op *op, CUstream stream, uint64_t ready_ns);

/* A copy as work; the parameters are checked. */
/* What a test has a copy of this direction go wrong with. */
CUresult sg_copy_failure(enum sg_direction direction);
CUresult sg_copy_op(struct sg_op **out, const CUDA_MEMCPY3D *copy, unsigned gpu);
/* The same for words in memory. */
CUresult sg_memops_op(struct sg_op **out, const CUstreamBatchMemOpParams *items, unsigned count);

void sg_record_unref(struct sg_record *record);
/* What it stands for is done, although the work that it is a part of goes on. */
void sg_record_done(struct sg_record *record);
/* Waits for it. */
void sg_record_wait(struct sg_record *record);

#endif
