/* The captures that the program has open: what the shim has to know of them. */
#ifndef MOIETY_SHIM_GATE_STREAM_CAPTURE_H
#define MOIETY_SHIM_GATE_STREAM_CAPTURE_H

#include <stdbool.h>

#include "cuda/cuda_abi.h"

/* All with streams_lock. A stream is named as by the plain flavour of a call. */
void stream_capture_add(CUstream stream, CUstreamCaptureMode mode);
/* Its origin ended it, or was destroyed; whether there was one. *graph: what it captured to; NULL: not known. */
bool stream_capture_remove(CUstream stream, CUgraph *graph);

/* The context is gone, with the captures in it. */
void stream_capture_forget_context(CUcontext context);

/* The result of a call that the shim does itself and the driver refuses during some captures:
 * CUDA_SUCCESS, or the driver's own refusal, which invalidates these captures as without the
 * shim. */
CUresult stream_capture_check(void);

void stream_capture_after_fork(void);

#endif
