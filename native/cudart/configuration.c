/* What stands between the three angle brackets of a launch, until the launch itself follows. */
#include "cudart/runtime.h"
#include "cudart/thread.h"

enum { DEPTH = 16 };

static __thread struct {
    dim3 grid, block;
    size_t shared;
    void *stream;
} stack[DEPTH];
static __thread unsigned int depth;

RT_EXPORT unsigned int __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared,
                                                   void *stream);
unsigned int __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream)
{
    if (depth == DEPTH) {
        return 1;
    }
    stack[depth].grid = grid;
    stack[depth].block = block;
    stack[depth].shared = shared;
    stack[depth++].stream = stream;
    return 0;
}

RT_CALL(__cudaPopCallConfiguration, dim3 *grid, dim3 *block, size_t *shared, void *stream)
{
    if (!depth) {
        return rt_end(cudaErrorInvalidConfiguration);
    }
    depth--;
    *grid = stack[depth].grid;
    *block = stack[depth].block;
    *shared = stack[depth].shared;
    *(void **)stream = stack[depth].stream;
    return cudaSuccess;
}
