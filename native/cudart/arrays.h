/* Arrays. */
#ifndef MOIETY_CUDART_ARRAYS_H
#define MOIETY_CUDART_ARRAYS_H

#include "cudart/runtime.h"

/* Bytes of an element, which is what the runtime counts in where an array takes part. */
cudaError_t rt_element(CUarray array, size_t *bytes);

#endif
