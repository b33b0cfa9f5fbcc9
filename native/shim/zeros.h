/* A look at chunks, on the GPU: which of them hold only zeros and need not be copied?
 *
 * Frameworks take most of a GPU up front and write little of it. A kernel of ours reads the chunks
 * where they are, hundreds of times faster than a link could carry them, and leaves each at the
 * first word that is not zero. Where the kernel cannot be loaded, everything counts as data.
 */
#ifndef MOIETY_SHIM_ZEROS_H
#define MOIETY_SHIM_ZEROS_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda/cuda_abi.h"

#define ZEROS_AT_ONCE 64u /* chunks in one look */

/* In one context, and gone with it. */
struct zeros {
    bool tried;
    CUfunction function;     /* NULL: cannot look */
    struct zeros_page *page; /* what the GPU is asked and answers, in host memory */
    CUdeviceptr page_at;
};

/* Whether it can look. The first time it loads the kernel into the current context: not while
 * anything is captured or this process has work on the GPU, since that takes a few milliseconds
 * and some device memory. */
bool zeros_can_look(struct zeros *zeros);
/* The `index`th of the chunks to look at next. */
void zeros_ask(struct zeros *zeros, uint32_t index, CUdeviceptr at, uint64_t bytes);
/* Looks at the first `count`, in stream order. */
CUresult zeros_look(struct zeros *zeros, uint32_t count, CUstream stream);
/* What came of it, once the stream is past the look: whether it holds only zeros. */
bool zeros_found(const struct zeros *zeros, uint32_t index);

#endif
