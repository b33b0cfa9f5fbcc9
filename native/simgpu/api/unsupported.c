/* Entry points that return CUDA_ERROR_NOT_SUPPORTED.
 *
 * They are weak symbols: a definition in another file replaces them.
 */
#include "simgpu/base/entry.h"

static CUresult say_no(void)
{
    CUresult entered = sg_enter();
    return entered ? entered : CUDA_ERROR_NOT_SUPPORTED;
}

#define WEAK __attribute__((weak))
#pragma GCC diagnostic ignored "-Wunused-parameter" /* their names are the API's */

#define CUDA_CALL(name, parameters, arguments) \
    WEAK CUresult name parameters { return say_no(); }
#define CUDA_CALL_DS(name, parameters, arguments) CUDA_CALL(name, parameters, arguments)
#define CUDA_CALL_SZ(name, parameters, arguments) CUDA_CALL(name, parameters, arguments)
#include "cuda/cuda_calls.def"

#define PLAIN(class, name, symbol, since) \
    WEAK CUresult symbol(void) { return say_no(); }
#define PLAIN_DS(class, name, symbol, since, since_ptds) \
    WEAK CUresult symbol(void) { return say_no(); }      \
    WEAK CUresult symbol##_ptds(void) { return say_no(); }
#define PLAIN_SZ(class, name, symbol, since, since_ptsz) \
    WEAK CUresult symbol(void) { return say_no(); }      \
    WEAK CUresult symbol##_ptsz(void) { return say_no(); }
#include "cuda/plain_calls.def"
