/* How the work of a stream is carried out: on the CPU, with the duration that the GPU would need.
 *
 * `ready_ns` is when the GPU could have begun. Time is booked from there and not from when this thread
 * runs, so delays of the host do not add up.
 */
#include "simgpu/exec/stream_exec.h"

#include <stdlib.h>
#include <string.h>

#include "simgpu/base/counters.h"
#include "simgpu/base/devices.h"
#include "simgpu/base/entry.h"
#include "simgpu/base/resize.h"
#include "simgpu/context/context.h"
#include "simgpu/exec/conditional_value.h"
#include "simgpu/exec/guard.h"
#include "simgpu/exec/module.h"
#include "simgpu/exec/multimem.h"
#include "simgpu/mem/managed.h"
#include "simgpu/mem/memory.h"
#include "simgpu/shared/clock.h"
#include "simgpu/shared/clock_hold.h"
#include "simgpu/shared/link_bandwidth.h"
#include "simgpu/shared/sleep.h"
#include "simgpu/shared/time_slice.h"
#include "simgpu/stream/stream.h"

#define POLL_NS (20 * SG_US)
#define SPIN_MOST_NS (500 * SG_US)

void sg_run_guarded(CUstream stream, void (*work)(void *), void *argument)
{
    uint64_t address;
    if (sg_guarded(work, argument, &address) != 0) {
        sg_context_set_error(stream->context, CUDA_ERROR_ILLEGAL_ADDRESS);
    }
}

/* ---- kernels ---- */

struct body {
    const struct simgpu_kernel *kernel;
    const struct simgpu_launch *launch;
    void **params;
};

static void run_body(void *argument)
{
    const struct body *body = argument;
    body->kernel->body(body->launch, body->params);
}

struct spin {
    const struct simgpu_kernel *kernel;
    const struct simgpu_launch *launch;
    void **params;
    uint64_t spun_ns;
    int ended;
};

static void poll_once(void *argument)
{
    struct spin *spin = argument;
    spin->ended = spin->kernel->poll(spin->launch, spin->params, spin->spun_ns);
}

/* It books the GPU in small pieces while it spins, so that other streams and processes get their turn, as
 * with time slices. */
static void execute_spinning(const struct simgpu_kernel *kernel, const struct simgpu_launch *launch,
                             void **params, CUstream stream, uint64_t ready_ns)
{
    CUcontext context = stream->context;
    struct spin spin = {.kernel = kernel, .launch = launch, .params = params};
    uint64_t least = sg_profile_of(context->gpu)->launch_ns;
    uint64_t began = sg_now_ns();
    stream->end_ns = sg_slice_run(context->gpu, ready_ns, least);
    for (;;) {
        sg_run_guarded(stream, poll_once, &spin);
        if (spin.ended || context->sticky_error || context->destroyed) {
            return;
        }
        uint64_t slice = spin.spun_ns / 8;
        slice = slice < POLL_NS ? POLL_NS : slice > SPIN_MOST_NS ? SPIN_MOST_NS : slice;
        stream->end_ns = sg_slice_run(context->gpu, sg_now_ns(), slice);
        sg_sleep_until(stream->end_ns);
        spin.spun_ns = sg_now_ns() - began;
    }
}

static void execute_kernel(struct sg_op *op, CUstream stream, uint64_t ready_ns)
{
    struct sg_kernel_launch *launch = &op->kernel;
    CUfunction function = launch->function;
    const struct simgpu_kernel *kernel = function->kernel;
    unsigned gpu = stream->context->gpu;
    void *params[SIMGPU_PARAMS_MAX];
    uint64_t duration = 0;
    sg_managed_arm(gpu);
    for (uint32_t i = 0; i < kernel->params; i++) {
        params[i] = (char *)launch->values + function->offset[i];
    }
    if (kernel->poll) {
        execute_spinning(kernel, &launch->shape, params, stream, ready_ns);
        return;
    }
    if (kernel->body) {
        struct body body = {kernel, &launch->shape, params};
        void *shared = launch->shape.shared_bytes ? calloc(1, launch->shape.shared_bytes) : NULL;
        launch->shape.shared = shared;
        launch->shape.set_conditional = sg_conditional_value_set;
        launch->shape.multimem_store = sg_multimem_store;
        launch->shape.multimem_sum = sg_multimem_sum;
        launch->shape.memory_bytes_per_s = sg_profile_of(gpu)->memory_bytes_per_s;
        uint64_t start = sg_now_ns();
        if (kernel->time_ns) {
            sg_clock_hold();
        }
        sg_run_guarded(stream, run_body, &body);
        if (kernel->time_ns) {
            sg_clock_release();
        }
        duration = sg_now_ns() - start;
        free(shared);
    }
    if (kernel->time_ns) {
        duration = kernel->time_ns(&launch->shape, params);
    }
    uint64_t least = sg_profile_of(gpu)->launch_ns;
    stream->end_ns = sg_slice_run(gpu, ready_ns, duration > least ? duration : least);
}

static void copy_kernel(struct sg_op *op)
{
    op->kernel.values = sg_copied(op->kernel.values, op->kernel.bytes);
    op->kernel.attributes = sg_copied(op->kernel.attributes, sizeof *op->kernel.attributes);
}

static void release_kernel(struct sg_op *op)
{
    free(op->kernel.values);
    free(op->kernel.attributes);
}

static void count_kernel(const struct sg_op *op)
{
    (void)op;
    sg_count(SG_LAUNCHED, 0);
}

const struct sg_op_kind sg_kind_kernel = {.name = "kernel",
                                          .is_capturable = 1,
                                          .node_type = CU_GRAPH_NODE_TYPE_KERNEL,
                                          .execute = execute_kernel,
                                          .copy = copy_kernel,
                                          .release = release_kernel,
                                          .count = count_kernel};

/* ---- copies ---- */

struct piece {
    const struct sg_copy *copy;
    size_t x, y, z;
    size_t bytes; /* copied by the last call */
};

static void copy_piece(void *argument)
{
    struct piece *piece = argument;
    const struct sg_copy *copy = piece->copy;
    piece->bytes = 0;
    while (piece->z < copy->depth && piece->bytes < SG_LINK_SLICE_BYTES) {
        size_t length = copy->width - piece->x, room = SG_LINK_SLICE_BYTES - piece->bytes;
        if (length > room) {
            length = room;
        }
        memmove((void *)(uintptr_t)(copy->dst + piece->z * copy->dst_slice +
                                    piece->y * copy->dst_pitch + piece->x),
                (void *)(uintptr_t)(copy->src + piece->z * copy->src_slice +
                                    piece->y * copy->src_pitch + piece->x),
                length);
        piece->bytes += length;
        piece->x += length;
        if (piece->x == copy->width) {
            piece->x = 0;
            piece->y++;
        }
        if (piece->y == copy->height) {
            piece->y = 0;
            piece->z++;
        }
    }
}

/* Books the links or the compute units for a piece. Returns the end. */
static uint64_t book_copy(const struct sg_copy *copy, uint64_t ready_ns, uint64_t bytes)
{
    const struct sg_profile *profile = sg_profile_of(copy->gpu);
    uint64_t rate, end;
    switch (copy->direction) {
    case SG_H2D:
    case SG_D2H:
        rate = copy->direction == SG_H2D ? profile->h2d_bytes_per_s : profile->d2h_bytes_per_s;
        end = sg_book(copy->gpu, copy->direction == SG_H2D ? SG_LINK_H2D : SG_LINK_D2H, ready_ns,
                      sg_duration_ns(bytes, rate));
        if (copy->pageable) { /* the CPU copies to and from pinned pages, which is slower */
            uint64_t slow = ready_ns + sg_duration_ns(bytes, profile->pageable_bytes_per_s);
            end = slow > end ? slow : end;
        }
        return end;
    case SG_P2P:
        end = sg_book(copy->other_gpu, SG_LINK_D2H, ready_ns,
                      sg_duration_ns(bytes, profile->p2p_bytes_per_s));
        return sg_book(copy->gpu, SG_LINK_H2D,
                       end - sg_duration_ns(bytes, profile->p2p_bytes_per_s),
                       sg_duration_ns(bytes, profile->p2p_bytes_per_s));
    case SG_D2D:
        return sg_slice_run(copy->gpu, ready_ns,
                            sg_duration_ns(2 * bytes, profile->memory_bytes_per_s));
    case SG_H2H:
        break;
    }
    return ready_ns;
}

static void execute_copy(struct sg_op *op, CUstream stream, uint64_t ready_ns)
{
    const struct sg_copy *copy = &op->copy;
    struct piece piece = {.copy = copy};
    uint64_t total = (uint64_t)copy->width * copy->height * copy->depth, done = 0, end = ready_ns;
    sg_managed_arm(stream->context->gpu);
    if (copy->direction != SG_D2D) {
        sg_slice_leave(stream->context->gpu);
    }
    while (done < total && !stream->context->sticky_error) {
        uint64_t bytes = total - done < SG_LINK_SLICE_BYTES ? total - done : SG_LINK_SLICE_BYTES;
        end = book_copy(copy, end, bytes);
        sg_clock_hold(); /* the links give the time, and not memmove */
        sg_run_guarded(stream, copy_piece, &piece);
        sg_clock_release();
        if (end > sg_now_ns() + SG_WORTH_SLEEPING_NS) {
            sg_sleep_until(end);
        }
        done += bytes;
    }
    if (copy->direction != SG_D2D) {
        sg_slice_enter(stream->context->gpu);
    }
    stream->end_ns = end;
}

static void copy_copy(struct sg_op *op)
{
    if (op->copy.staged) {
        op->copy.staged = sg_copied(op->copy.staged, op->copy.width);
        op->copy.src = (uint64_t)(uintptr_t)op->copy.staged;
    }
}

static void release_copy(struct sg_op *op) { free(op->copy.staged); }

static void count_copy(const struct sg_op *op)
{
    sg_count(SG_COPIED, (uint64_t)op->copy.width * op->copy.height * op->copy.depth);
}

const struct sg_op_kind sg_kind_copy = {.name = "copy",
                                        .is_capturable = 1,
                                        .node_type = CU_GRAPH_NODE_TYPE_MEMCPY,
                                        .execute = execute_copy,
                                        .copy = copy_copy,
                                        .release = release_copy,
                                        .count = count_copy};

/* ---- memory sets ---- */

static void set_memory(void *argument)
{
    const struct sg_memset *set = argument;
    for (size_t y = 0; y < set->height; y++) {
        char *row = (char *)(uintptr_t)(set->dst + y * set->pitch);
        if (set->element_bytes == 1) {
            memset(row, (int)set->value, set->width);
        } else if (set->element_bytes == 2) {
            for (size_t x = 0; x < set->width; x++) {
                ((uint16_t *)(void *)row)[x] = (uint16_t)set->value;
            }
        } else {
            for (size_t x = 0; x < set->width; x++) {
                ((uint32_t *)(void *)row)[x] = set->value;
            }
        }
    }
}

static void execute_memset(struct sg_op *op, CUstream stream, uint64_t ready_ns)
{
    struct sg_memset *set = &op->memset;
    unsigned gpu = stream->context->gpu;
    sg_managed_arm(gpu);
    sg_run_guarded(stream, set_memory, set);
    stream->end_ns =
        sg_slice_run(gpu, ready_ns,
                     sg_duration_ns((uint64_t)set->width * set->height * set->element_bytes,
                                    sg_profile_of(gpu)->memory_bytes_per_s));
}

static void count_memset(const struct sg_op *op)
{
    (void)op;
    sg_count(SG_MEMSET_DONE, 0);
}

const struct sg_op_kind sg_kind_memset = {.name = "memset",
                                          .is_capturable = 1,
                                          .node_type = CU_GRAPH_NODE_TYPE_MEMSET,
                                          .execute = execute_memset,
                                          .count = count_memset};

/* ---- functions of the program ---- */

static void enter_host_function(void)
{
    sg_on_gpu = 0;
    sg_in_host_function = 1;
}

static void leave_host_function(CUstream stream)
{
    sg_in_host_function = 0;
    sg_on_gpu = 1;
    stream->end_ns = sg_now_ns();
}

static void execute_host(struct sg_op *op, CUstream stream, uint64_t ready_ns)
{
    (void)ready_ns;
    enter_host_function();
    op->host.call(op->host.data);
    leave_host_function(stream);
}

static void execute_callback(struct sg_op *op, CUstream stream, uint64_t ready_ns)
{
    (void)ready_ns;
    enter_host_function();
    op->callback.call(op->callback.stream, stream->context->sticky_error, op->callback.data);
    leave_host_function(stream);
}

static void count_host(const struct sg_op *op)
{
    (void)op;
    sg_count(SG_HOST_CALLED, 0);
}

const struct sg_op_kind sg_kind_host = {.name = "host function",
                                        .is_capturable = 1,
                                        .node_type = CU_GRAPH_NODE_TYPE_HOST,
                                        .leaves_compute = 1,
                                        .execute = execute_host,
                                        .count = count_host};
const struct sg_op_kind sg_kind_callback = {
    .name = "callback", .leaves_compute = 1, .execute = execute_callback, .count = count_host};

/* ---- memory ---- */

static void execute_free(struct sg_op *op, CUstream stream, uint64_t ready_ns)
{
    (void)stream, (void)ready_ns;
    sg_memory_free(op->address);
}

static void execute_prefetch(struct sg_op *op, CUstream stream, uint64_t ready_ns)
{
    (void)ready_ns;
    sg_managed_move(op->prefetch.address, op->prefetch.bytes, op->prefetch.gpu);
    stream->end_ns = sg_now_ns();
}

const struct sg_op_kind sg_kind_free = {.name = "free", .execute = execute_free};
const struct sg_op_kind sg_kind_prefetch = {
    .name = "prefetch", .leaves_compute = 1, .execute = execute_prefetch};
