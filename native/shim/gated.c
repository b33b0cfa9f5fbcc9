/* The wrappers that are all alike, made from the two tables (cuda/cuda_calls.def, entrypoints.h). */
#include "shim/control.h"
#include "shim/entrypoints.h"
#include "shim/gate.h"
#include "shim/real.h"
#include "shim/room.h"

/* The driver ran out by itself: room is made for it, outside the gate, and it tries once more. */
#define AGAIN_WITH_ROOM(result, enter, call, leave)                          \
    if (__builtin_expect((result) == CUDA_ERROR_OUT_OF_MEMORY, 0)) {         \
        unsigned attempt = 0;                                                \
        while ((result) == CUDA_ERROR_OUT_OF_MEMORY && room_made(attempt)) { \
            attempt++;                                                       \
            enter;                                                           \
            (result) = call;                                                 \
            leave;                                                           \
        }                                                                    \
        if (attempt) {                                                       \
            room_used();                                                     \
        }                                                                    \
    }

#define WRAP_GATED(name, parameters, arguments) \
    CUresult name parameters                    \
    {                                           \
        struct mw_slot *slot = gate_enter();    \
        CUresult result = REAL(name) arguments; \
        gate_leave(slot);                       \
        return result;                          \
    }
#define WRAP_PIN(name, parameters, arguments)   \
    CUresult name parameters                    \
    {                                           \
        struct mw_slot *slot = gate_enter();    \
        control_pin(#name);                     \
        CUresult result = REAL(name) arguments; \
        gate_leave(slot);                       \
        return result;                          \
    }
#define WRAP_GROWS_PINS(name, parameters, arguments)                                         \
    CUresult name parameters                                                                 \
    {                                                                                        \
        struct mw_slot *slot = gate_enter();                                                 \
        control_pin(#name);                                                                  \
        CUresult result = REAL(name) arguments;                                              \
        gate_leave(slot);                                                                    \
        AGAIN_WITH_ROOM(result, slot = gate_enter(), REAL(name) arguments, gate_leave(slot)) \
        return result;                                                                       \
    }
#define WRAP_GROWS(name, parameters, arguments)                                              \
    CUresult name parameters                                                                 \
    {                                                                                        \
        struct mw_slot *slot = gate_enter();                                                 \
        CUresult result = REAL(name) arguments;                                              \
        gate_leave(slot);                                                                    \
        AGAIN_WITH_ROOM(result, slot = gate_enter(), REAL(name) arguments, gate_leave(slot)) \
        return result;                                                                       \
    }
/* Needs no lease, but may need memory. */
#define WRAP_MAKES(name, parameters, arguments)                         \
    CUresult name parameters                                            \
    {                                                                   \
        CUresult result = REAL(name) arguments;                         \
        AGAIN_WITH_ROOM(result, (void)0, REAL(name) arguments, (void)0) \
        return result;                                                  \
    }
#define WRAP_SYNC(name, parameters, arguments)  \
    CUresult name parameters                    \
    {                                           \
        struct mw_slot *slot = gate_block();    \
        CUresult result = REAL(name) arguments; \
        gate_unblock(slot);                     \
        return result;                          \
    }
#define WRAP_QUERY(name, parameters, arguments) WRAP_SYNC(name, parameters, arguments)
#define WRAP_OWN(name, parameters, arguments)
#define WRAP_PASS(name, parameters, arguments)

#define WRAP__(class, name, parameters, arguments) WRAP_##class(name, parameters, arguments)
#define WRAP_(class, name, parameters, arguments) WRAP__(class, name, parameters, arguments)

#define CUDA_CALL(name, parameters, arguments) WRAP_(CLASS_##name, name, parameters, arguments)
#define CUDA_CALL_DS(name, parameters, arguments)    \
    WRAP_(CLASS_##name, name, parameters, arguments) \
    WRAP_(CLASS_##name, name##_ptds, parameters, arguments)
#define CUDA_CALL_SZ(name, parameters, arguments)    \
    WRAP_(CLASS_##name, name, parameters, arguments) \
    WRAP_(CLASS_##name, name##_ptsz, parameters, arguments)
#include "cuda/cuda_calls.def"
