/* The wrappers that are all alike, made from the tables (cuda/cuda_calls.def, cuda/plain_calls.def, entrypoints.h). */
#include "shim/agent/client_report.h"
#include "shim/base/driver.h"
#include "shim/base/entrypoints.h"
#include "shim/gate/gate.h"
#include "shim/gate/queue_depth.h"
#include "shim/gate/streams.h"
#include "shim/gate/thunk.h"
#include "shim/hooks/range_check.h"
#include "shim/mem/graph_memory.h"
#include "shim/mem/oom_retry.h"
#include "shim/mem/peer_copy.h"
#include "shim/mem/peer_copy_node.h"
#include "shim/pool/trim.h"

/* The driver ran out by itself: room is made for it, outside the gate, and it tries once more. */
#define RETRY_ON_OOM(result, enter, call, leave)                             \
    if (__builtin_expect((result) == CUDA_ERROR_OUT_OF_MEMORY, 0)) {         \
        unsigned attempt = 0;                                                \
        while ((result) == CUDA_ERROR_OUT_OF_MEMORY && oom_retry(attempt)) { \
            attempt++;                                                       \
            enter;                                                           \
            (result) = call;                                                 \
            leave;                                                           \
        }                                                                    \
        if (attempt) {                                                       \
            oom_retry_done();                                                \
        }                                                                    \
    }

/* What a stream of NULL means, in each flavour of a call. */
#define PLAIN(stream) (stream)
#define OWN_STREAM(stream) ((stream) ? (stream) : CU_STREAM_PER_THREAD)

/* The driver, unless its arguments are wrong in a way that it cannot see (range_check.h), or reach memory that it
 * would not find from there (peer_copy.h). */
#define SECOND_OF(first, second, ...) second
#define SECOND(...) SECOND_OF(__VA_ARGS__)
#define DO(base, name, arguments, where)                                               \
    struct peer_copy peer_copy;                                                        \
    peer_copy.context = NULL;                                                          \
    CUresult result = SECOND(WRONG_##base, false, )          ? range_check_error()     \
                      : SECOND(CROSS_##base(where), false, ) ? peer_copy.result        \
                                                             : DRIVER(name) arguments; \
    if (__builtin_expect(peer_copy.context != NULL, 0)) {                              \
        peer_copy_end(&peer_copy, &result);                                            \
    }

#define WRAP_GATED(name, parameters, arguments, flavour, base) \
    CUresult name parameters                                   \
    {                                                          \
        struct mw_slot *slot = gate_enter();                   \
        DO(base, name, arguments, flavour((CUstream)NULL))     \
        streams_note(flavour((CUstream)NULL));                 \
        gate_leave(slot);                                      \
        return result;                                         \
    }
#define WRAP_QUEUED(name, base, parameters, arguments, stream, count, again) \
    CUresult name parameters                                                 \
    {                                                                        \
        bool is_last = count;                                                \
        struct mw_slot *slot = gate_enter();                                 \
        DO(base, name, arguments, stream)                                    \
        if (__builtin_expect(is_last, 0)) {                                  \
            queue_depth_mark(stream, result);                                \
        }                                                                    \
        streams_note(stream);                                                \
        gate_leave(slot);                                                    \
        again(result, slot, DRIVER(name) arguments) return result;           \
    }
/* The driver loads code lazily, with the first launch. */
#define LAUNCH_AGAIN(result, slot, call) \
    RETRY_ON_OOM(result, (slot) = gate_enter(), call, gate_leave(slot))
#define NOT_AGAIN(result, slot, call)
#define WRAP_KERNEL(name, parameters, arguments, flavour, base)     \
    WRAP_QUEUED(name, base, parameters, arguments, flavour(stream), \
                queue_depth_count(flavour(stream)), LAUNCH_AGAIN)
#define WRAP_KERNEL_EX(name, parameters, arguments, flavour, base)             \
    WRAP_QUEUED(name, base, parameters, arguments, flavour(of_config(config)), \
                queue_depth_count(flavour(of_config(config))), LAUNCH_AGAIN)
#define WRAP_LAUNCH(name, parameters, arguments, flavour, base)     \
    WRAP_QUEUED(name, base, parameters, arguments, flavour(stream), \
                queue_depth_count(flavour(stream)), NOT_AGAIN)
#define WRAP_GRAPH(name, parameters, arguments, flavour, base)                          \
    CUresult name parameters                                                            \
    {                                                                                   \
        bool takes = atomic_load_explicit(&graph_memory_is_used, memory_order_relaxed); \
        CUresult result = takes ? graph_memory_begin_launch(graph_exec) : CUDA_SUCCESS; \
        if (__builtin_expect(result != CUDA_SUCCESS, 0)) {                              \
            return result;                                                              \
        }                                                                               \
        bool is_last = queue_depth_count_long(flavour(stream), graph_exec);             \
        struct mw_slot *slot = gate_enter();                                            \
        result = DRIVER(name) arguments;                                                \
        if (__builtin_expect(is_last, 0)) {                                             \
            queue_depth_mark(flavour(stream), result);                                  \
        }                                                                               \
        streams_note(flavour(stream));                                                  \
        gate_leave(slot);                                                               \
        LAUNCH_AGAIN(result, slot, DRIVER(name) arguments)                              \
        if (__builtin_expect(takes, 0) && result == CUDA_SUCCESS) {                     \
            graph_memory_end_launch(graph_exec);                                        \
        }                                                                               \
        return result;                                                                  \
    }
#define WRAP_COPY(name, parameters, arguments, flavour, base)       \
    WRAP_QUEUED(name, base, parameters, arguments, flavour(stream), \
                queue_depth_count_copy(flavour(stream), bytes), NOT_AGAIN)
/* Works in the default stream and returns before it is done. */
#define WRAP_DEFAULT(name, parameters, arguments, flavour, base)            \
    WRAP_QUEUED(name, base, parameters, arguments, flavour((CUstream)NULL), \
                queue_depth_count(flavour((CUstream)NULL)), NOT_AGAIN)
#define WRAP_AWAIT(name, parameters, arguments, flavour, base) \
    CUresult name parameters                                   \
    {                                                          \
        struct mw_slot *slot = gate_enter();                   \
        queue_depth_be_impatient();                            \
        CUresult result = DRIVER(name) arguments;              \
        streams_note(flavour((CUstream)NULL));                 \
        gate_leave(slot);                                      \
        return result;                                         \
    }
#define WRAP_PIN(name, parameters, arguments, flavour, base) \
    CUresult name parameters                                 \
    {                                                        \
        CUresult result = client_pin_begin(#name);           \
        if (result != CUDA_SUCCESS) {                        \
            return result;                                   \
        }                                                    \
        struct mw_slot *slot = gate_enter();                 \
        result = DRIVER(name) arguments;                     \
        gate_leave(slot);                                    \
        client_pin_end(result == CUDA_SUCCESS);              \
        return result;                                       \
    }
#define WRAP_SYNC(name, parameters, arguments, flavour, base) \
    CUresult name parameters                                  \
    {                                                         \
        struct mw_slot *slot = gate_block();                  \
        CUresult result = DRIVER(name) arguments;             \
        gate_unblock(slot);                                   \
        shrink_pools(result);                                 \
        return result;                                        \
    }
#define WRAP_QUERY(name, parameters, arguments, flavour, base) \
    CUresult name parameters                                   \
    {                                                          \
        struct mw_slot *slot = gate_block();                   \
        CUresult result = DRIVER(name) arguments;              \
        if (result == CUDA_SUCCESS) {                          \
            gate_unblock_idle(slot);                           \
        } else {                                               \
            gate_unblock(slot);                                \
        }                                                      \
        return result;                                         \
    }
#define WRAP_OWN(name, parameters, arguments, flavour, base)
#define WRAP_PASS(name, parameters, arguments, flavour, base)

#define WRAP_GROWS(name, parameters, arguments, flavour, base)                              \
    CUresult name parameters                                                                \
    {                                                                                       \
        struct mw_slot *slot = gate_enter();                                                \
        CUresult result = DRIVER(name) arguments;                                           \
        gate_leave(slot);                                                                   \
        RETRY_ON_OOM(result, slot = gate_enter(), DRIVER(name) arguments, gate_leave(slot)) \
        return result;                                                                      \
    }
/* Needs no lease, but may need memory. */
#define WRAP_MAKES(name, parameters, arguments, flavour, base)         \
    CUresult name parameters                                           \
    {                                                                  \
        CUresult result = DRIVER(name) arguments;                      \
        RETRY_ON_OOM(result, (void)0, DRIVER(name) arguments, (void)0) \
        return result;                                                 \
    }

/* The same, and it makes a stream. */
#define WRAP_STREAM(name, parameters, arguments, flavour, base)        \
    CUresult name parameters                                           \
    {                                                                  \
        CUresult result = DRIVER(name) arguments;                      \
        RETRY_ON_OOM(result, (void)0, DRIVER(name) arguments, (void)0) \
        if (result == CUDA_SUCCESS && stream) {                        \
            streams_add(*stream);                                      \
        }                                                              \
        return result;                                                 \
    }

#define WRAP__(class, name, parameters, arguments, flavour, base) \
    WRAP_##class(name, parameters, arguments, flavour, base)
#define WRAP_(class, name, parameters, arguments, flavour, base) \
    WRAP__(class, name, parameters, arguments, flavour, base)

static inline void shrink_pools(CUresult result)
{
    bool may = atomic_load_explicit(&trim_is_due, memory_order_relaxed);
    if (__builtin_expect(may, 0) && result == CUDA_SUCCESS) {
        trim_all();
    }
}

static inline CUstream of_config(const CUlaunchConfig *config)
{
    return config ? config->hStream : NULL;
}

#define CUDA_CALL(name, parameters, arguments) \
    WRAP_(CLASS_##name, name, parameters, arguments, PLAIN, name)
#define CUDA_CALL_DS(name, parameters, arguments)                 \
    WRAP_(CLASS_##name, name, parameters, arguments, PLAIN, name) \
    WRAP_(CLASS_##name, name##_ptds, parameters, arguments, OWN_STREAM, name)
#define CUDA_CALL_SZ(name, parameters, arguments)                 \
    WRAP_(CLASS_##name, name, parameters, arguments, PLAIN, name) \
    WRAP_(CLASS_##name, name##_ptsz, parameters, arguments, OWN_STREAM, name)
#include "cuda/cuda_calls.def"

/* ---- functions whose parameters are not known (cuda/plain_calls.def) ---- */

#undef PLAIN
#define WAY(symbol, kind) THUNK(symbol, #symbol, &driver_entries[ENTRY_##symbol], kind);

#define WAY_PASS(symbol)
#define WAY_GATED(symbol) WAY(symbol, THUNK_GATED)
#define WAY_PIN(symbol) WAY(symbol, THUNK_PIN)
#define WAY_AWAIT(symbol) WAY(symbol, THUNK_AWAIT)

#define PLAIN(class, name, symbol, since) WAY_##class(symbol)
#define PLAIN_DS(class, name, symbol, since, since_ptds) \
    WAY_##class(symbol) WAY_##class(symbol##_ptds)
#define PLAIN_SZ(class, name, symbol, since, since_ptsz) \
    WAY_##class(symbol) WAY_##class(symbol##_ptsz)
#include "cuda/plain_calls.def"
