/* The wrappers that are all alike, made from the two tables (cuda/cuda_calls.def, entrypoints.h). */
#include "shim/control.h"
#include "shim/entrypoints.h"
#include "shim/gate.h"
#include "shim/real.h"

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
