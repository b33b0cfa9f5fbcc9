/* What the shim does with every entry point of the driver that it knows: the one table, of which
 * entrypoints_passed.h is the part that is passed through.
 *
 * A name of cuda/cuda_calls.def that is missing here does not compile. The flavours of a name
 * (_ptds, _ptsz) share its class. An entry point that is in neither is unknown: the program gets
 * the driver's own function behind a counter (dlsym.c).
 */
#ifndef MOIETY_SHIM_BASE_ENTRYPOINTS_H
#define MOIETY_SHIM_BASE_ENTRYPOINTS_H

#include "shim/base/entrypoints_passed.h"

/* clang-format off: this is a table */

/* Ours: what they do is done in hooks/cu_*.c. */
#define CLASS_cuGetExportTable OWN
#define CLASS_cuGetProcAddress OWN
#define CLASS_cuGetProcAddress_v2 OWN
#define CLASS_cuInit OWN
#define CLASS_cuDevicePrimaryCtxRelease OWN
#define CLASS_cuDevicePrimaryCtxRelease_v2 OWN
#define CLASS_cuDevicePrimaryCtxReset OWN
#define CLASS_cuDevicePrimaryCtxReset_v2 OWN
#define CLASS_cuDevicePrimaryCtxRetain OWN
#define CLASS_cuDeviceTotalMem_v2 OWN
#define CLASS_cuDeviceTotalMem OWN
#define CLASS_cuCtxCreate_v2 OWN
#define CLASS_cuCtxCreate_v3 OWN
#define CLASS_cuCtxCreate_v4 OWN
#define CLASS_cuCtxCreate OWN
#define CLASS_cuCtxAttach OWN
#define CLASS_cuCtxDetach OWN
#define CLASS_cuCtxDestroy OWN
#define CLASS_cuCtxEnablePeerAccess OWN
#define CLASS_cuCtxDisablePeerAccess OWN
#define CLASS_cuCtxDestroy_v2 OWN
#define CLASS_cuMemAllocManaged OWN
#define CLASS_cuMemAllocPitch_v2 OWN
#define CLASS_cuMemAlloc_v2 OWN
#define CLASS_cuMemAllocAsync OWN
#define CLASS_cuMemAllocFromPoolAsync OWN
#define CLASS_cuMemFree_v2 OWN
#define CLASS_cuMemFreeAsync OWN
#define CLASS_cuMemPoolCreate OWN
#define CLASS_cuMemPoolDestroy OWN
#define CLASS_cuMemPoolExportPointer OWN
#define CLASS_cuMemPoolGetAttribute OWN
#define CLASS_cuMemPoolImportPointer OWN
#define CLASS_cuMemPoolSetAccess OWN
#define CLASS_cuMemPoolSetAttribute OWN
#define CLASS_cuMemPoolTrimTo OWN
#define CLASS_cuPointerGetAttribute OWN
#define CLASS_cuPointerGetAttributes OWN
#define CLASS_cuPointerSetAttribute OWN
#define CLASS_cuGraphAddNode_v3 OWN
#define CLASS_cuGraphAddNode_v2 OWN
#define CLASS_cuGraphAddNode OWN
#define CLASS_cuGraphAddMemAllocNode OWN
#define CLASS_cuDeviceGraphMemTrim OWN
#define CLASS_cuGraphDestroy OWN
#define CLASS_cuGraphExecDestroy OWN
#define CLASS_cuGraphInstantiate OWN
#define CLASS_cuGraphInstantiateWithFlags OWN
#define CLASS_cuGraphInstantiateWithParams OWN
#define CLASS_cuGraphInstantiate_v2 OWN
#define CLASS_cuGraphUpload OWN
#define CLASS_cuMipmappedArrayDestroy OWN
#define CLASS_cuArrayDestroy OWN
#define CLASS_cuMipmappedArrayCreate OWN
#define CLASS_cuArrayCreate_v2 OWN
#define CLASS_cuArray3DCreate_v2 OWN
#define CLASS_cuMemGetAddressRange_v2 OWN
#define CLASS_cuMemGetInfo_v2 OWN
#define CLASS_cuIpcCloseMemHandle OWN
#define CLASS_cuIpcGetMemHandle OWN
#define CLASS_cuIpcOpenEventHandle OWN
#define CLASS_cuIpcOpenMemHandle OWN
#define CLASS_cuIpcOpenMemHandle_v2 OWN
#define CLASS_cuMemGetInfo OWN
#define CLASS_cuLogicalEndpointBindMem OWN
#define CLASS_cuLogicalEndpointUnbind OWN
#define CLASS_cuMemAddressFree OWN
#define CLASS_cuMemCreate OWN
#define CLASS_cuMemExportToShareableHandle OWN
#define CLASS_cuMemGetAccess OWN
#define CLASS_cuMemMapArrayAsync OWN
#define CLASS_cuMulticastBindAddr OWN
#define CLASS_cuMulticastBindAddr_v2 OWN
#define CLASS_cuMulticastBindMem OWN
#define CLASS_cuMulticastBindMem_v2 OWN
#define CLASS_cuMulticastCreate OWN
#define CLASS_cuMulticastUnbind OWN
#define CLASS_cuMemGetAllocationPropertiesFromHandle OWN
#define CLASS_cuMemGetHandleForAddressRange OWN
#define CLASS_cuMemImportFromShareableHandle OWN
#define CLASS_cuMemMap OWN
#define CLASS_cuMemRelease OWN
#define CLASS_cuMemRetainAllocationHandle OWN
#define CLASS_cuMemSetAccess OWN
#define CLASS_cuMemUnmap OWN
#define CLASS_cuStreamBeginCapture OWN
#define CLASS_cuStreamBeginCaptureToGraph OWN
#define CLASS_cuStreamBeginCapture_v2 OWN
#define CLASS_cuStreamBeginRecaptureToGraph OWN
#define CLASS_cuStreamEndCapture OWN
#define CLASS_cuStreamDestroy OWN
#define CLASS_cuStreamWaitEvent OWN
#define CLASS_cuStreamDestroy_v2 OWN

/* Gated: start work, or touch device memory or what the driver keeps in it. */
#define CLASS_cuLibraryUnload GATED
#define CLASS_cuModuleUnload GATED
#define CLASS_cuMulticastAddDevice GATED
#define CLASS_cuMemcpy GATED
#define CLASS_cuMemcpy2DUnaligned_v2 GATED
#define CLASS_cuMemcpy2D_v2 GATED
#define CLASS_cuMemcpy3DPeer GATED
#define CLASS_cuMemcpy3D_v2 GATED
#define CLASS_cuMemcpyAtoA_v2 GATED
#define CLASS_cuMemcpyAtoD_v2 GATED
#define CLASS_cuMemcpyAtoH_v2 GATED
#define CLASS_cuMemcpyDtoA_v2 GATED
#define CLASS_cuMemcpyDtoH_v2 GATED
#define CLASS_cuMemcpyHtoA_v2 GATED
#define CLASS_cuMemcpyHtoD_v2 GATED
#define CLASS_cuMemcpyPeer GATED
#define CLASS_cuMemAdvise GATED
#define CLASS_cuMemAdvise_v2 GATED
#define CLASS_cuMemDiscardBatchAsync GATED
#define CLASS_cuMemDiscardAndPrefetchBatchAsync GATED
#define CLASS_cuMemPrefetchAsync GATED
#define CLASS_cuMemPrefetchAsync_v2 GATED
#define CLASS_cuMemPrefetchBatchAsync GATED
#define CLASS_cuStreamAddCallback GATED
#define CLASS_cuStreamAttachMemAsync GATED
#define CLASS_cuStreamWriteValue32 GATED
#define CLASS_cuStreamWriteValue32_v2 GATED
#define CLASS_cuStreamWriteValue64 GATED
#define CLASS_cuStreamWriteValue64_v2 GATED
#define CLASS_cuLaunchHostFunc GATED
#define CLASS_cuLaunchHostFunc_v2 GATED

/* The same, as they look up where the addresses lie that they are given. */
#define CLASS_cuGraphAddMemcpyNode GATED
#define CLASS_cuGraphAddMemsetNode GATED
#define CLASS_cuGraphMemcpyNodeSetParams GATED
#define CLASS_cuGraphMemsetNodeSetParams GATED
#define CLASS_cuGraphExecMemcpyNodeSetParams GATED
#define CLASS_cuGraphExecMemsetNodeSetParams GATED
#define CLASS_cuGraphNodeSetParams GATED
#define CLASS_cuGraphNodeSetParams_v2 GATED
#define CLASS_cuGraphExecNodeSetParams GATED
#define CLASS_cuGraphExecChildGraphNodeSetParams GATED

/* Gated, and return while the work goes on, so that a bound on that holds for them (queue_depth.h): launches and
 * what is like them, graphs, copies that may be large, and what works in the default stream. */
#define CLASS_cuLaunchKernel KERNEL
#define CLASS_cuLaunchCooperativeKernel KERNEL
#define CLASS_cuMemcpy2DAsync_v2 LAUNCH
#define CLASS_cuMemcpy3DAsync_v2 LAUNCH
#define CLASS_cuMemcpy3DBatchAsync LAUNCH
#define CLASS_cuMemcpy3DBatchAsync_v2 LAUNCH
#define CLASS_cuMemcpy3DPeerAsync LAUNCH
#define CLASS_cuMemcpy3DWithAttributesAsync LAUNCH
#define CLASS_cuMemcpyBatchAsync LAUNCH
#define CLASS_cuMemcpyBatchAsync_v2 LAUNCH
#define CLASS_cuMemcpyDtoDAsync_v2 LAUNCH
#define CLASS_cuMemsetD16Async LAUNCH
#define CLASS_cuMemsetD2D16Async LAUNCH
#define CLASS_cuMemsetD2D32Async LAUNCH
#define CLASS_cuMemsetD2D8Async LAUNCH
#define CLASS_cuMemsetD32Async LAUNCH
#define CLASS_cuMemsetD8Async LAUNCH
#define CLASS_cuLaunchKernelEx KERNEL_EX
#define CLASS_cuGraphLaunch GRAPH
#define CLASS_cuMemcpyAsync COPY
#define CLASS_cuMemcpyAtoHAsync_v2 COPY
#define CLASS_cuMemcpyDtoHAsync_v2 COPY
#define CLASS_cuMemcpyHtoAAsync_v2 COPY
#define CLASS_cuMemcpyHtoDAsync_v2 COPY
#define CLASS_cuMemcpyPeerAsync COPY
#define CLASS_cuMemcpyWithAttributesAsync COPY
#define CLASS_cuMemcpyDtoD_v2 DEFAULT
#define CLASS_cuMemsetD16_v2 DEFAULT
#define CLASS_cuMemsetD2D16_v2 DEFAULT
#define CLASS_cuMemsetD2D32_v2 DEFAULT
#define CLASS_cuMemsetD2D8_v2 DEFAULT
#define CLASS_cuMemsetD32_v2 DEFAULT
#define CLASS_cuMemsetD8_v2 DEFAULT

/* Gated, and what comes behind them may wait for what their own thread does later. */
#define CLASS_cuStreamBatchMemOp AWAIT
#define CLASS_cuStreamBatchMemOp_v2 AWAIT
#define CLASS_cuStreamWaitValue32 AWAIT
#define CLASS_cuStreamWaitValue32_v2 AWAIT
#define CLASS_cuStreamWaitValue64 AWAIT
#define CLASS_cuStreamWaitValue64_v2 AWAIT
#define CLASS_cuGraphAddBatchMemOpNode AWAIT
#define CLASS_cuGraphBatchMemOpNodeSetParams AWAIT
#define CLASS_cuGraphExecBatchMemOpNodeSetParams AWAIT

/* Gated, and pin their caller when they succeed: they make or expose memory that the shim cannot move. */
#define CLASS_cuLibraryGetManaged PIN

/* Gated, and where the driver runs out of memory for it, room is made and it tries once more. */
#define CLASS_cuFuncLoad GROWS
#define CLASS_cuKernelGetFunction GROWS
#define CLASS_cuLibraryGetGlobal GROWS
#define CLASS_cuLibraryGetModule GROWS
#define CLASS_cuLibraryLoadData GROWS
#define CLASS_cuLibraryLoadFromFile GROWS
#define CLASS_cuModuleGetFunction GROWS
#define CLASS_cuModuleGetGlobal_v2 GROWS
#define CLASS_cuModuleLoad GROWS
#define CLASS_cuModuleLoadData GROWS
#define CLASS_cuModuleLoadDataEx GROWS
#define CLASS_cuModuleLoadFatBinary GROWS
#define CLASS_cuGraphAddKernelNode GROWS
#define CLASS_cuGraphAddKernelNode_v2 GROWS
#define CLASS_cuGraphExecUpdate GROWS
#define CLASS_cuGraphExecUpdate_v2 GROWS

/* Need no lease, but may need room in the same way. */
#define CLASS_cuStreamCreate STREAM
#define CLASS_cuStreamCreateWithPriority STREAM
#define CLASS_cuEventCreate MAKES
#define CLASS_cuCtxSetLimit MAKES

/* Wait for the GPU: need no lease, but their caller is not idle. */
#define CLASS_cuCtxSynchronize SYNC
#define CLASS_cuCtxSynchronize_v2 SYNC
#define CLASS_cuStreamSynchronize SYNC
#define CLASS_cuEventSynchronize SYNC

/* Ask whether the GPU is done: need no lease, but their caller is not idle. */
#define CLASS_cuStreamQuery QUERY
#define CLASS_cuEventQuery QUERY

/* clang-format on */
#endif
