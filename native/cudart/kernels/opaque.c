/* What stands in for code of a GPU: it takes time there and computes nothing. */
#include "simgpu/kernel.h"

/* opaque(uint64_t ns) */
SIMGPU_TIMED_KERNEL(opaque, 8) { return SIMGPU_PARAM(uint64_t, 0); }
