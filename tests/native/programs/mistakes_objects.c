/* Every mistake with contexts, modules, streams, events, graphs and handles that a driver answers with an
 * error and nothing worse.
 *
 *   mistakes_objects KERNELS ROUNDS   (0: until SIGUSR1) */
#include "mistakes.h"
#include "mistakes_theirs.h"

static CUcontext context;
static CUmodule module;
static CUfunction nop, fill;
static char host[4096];
static char *garbage; /* as long as a small module */
static const char *kernels;

#define GARBAGE_BYTES 8192
#define MADE_UP(type) ((type)(void *)host) /* an address, but of nothing that the driver made */

static void modules(void)
{
    static const char elf[] = {0x7f, 'E', 'L', 'F', 2, 1, 1};
    static const char ptx[] = {'.', 'v', 'e', 'r', 's', 'i', 'o', 'n'};
    CUmodule wrong = NULL;
    CUfunction function = NULL;
    CUdeviceptr at = 0;
    CUlibrary library = NULL;
    size_t bytes = 0;
    SAY(cuModuleLoad(NULL, kernels));
    SAY(cuModuleLoad(&wrong, "/no/such/file"));
    SAY(cuModuleLoad(&wrong, "/proc/self/environ"));
    SAY(cuModuleLoadData(&wrong, NULL));
    SAY(cuModuleLoadData(NULL, garbage));
    SAY(cuModuleLoadData(&wrong, garbage));
    SAY(cuModuleLoadDataEx(&wrong, garbage, 0, NULL, NULL));
    SAY(cuModuleLoadFatBinary(&wrong, garbage));
    memcpy(garbage, elf, sizeof(elf)); /* an ELF by its first bytes, and by nothing else */
    SAY(cuModuleLoadData(&wrong, garbage));
    memcpy(garbage, ptx, sizeof(ptx));
    SAY(cuModuleLoadData(&wrong, garbage));
    memset(garbage, 'g', GARBAGE_BYTES - 1);
    SAY(cuLibraryLoadData(&library, garbage, NULL, NULL, 0, NULL, NULL, 0));
    SAY(cuLibraryLoadData(NULL, garbage, NULL, NULL, 0, NULL, NULL, 0));
    SAY(cuLibraryLoadFromFile(&library, "/no/such/file", NULL, NULL, 0, NULL, NULL, 0));
    SAY(cuLibraryUnload(MADE_UP(CUlibrary)));
    SAY(cuModuleGetFunction(&function, module, "there_is_none"));
    SAY(cuModuleGetFunction(NULL, module, "nop"));
    SAY(cuModuleGetFunction(&function, module, NULL));
    SAY(cuModuleGetFunction(&function, NULL, "nop"));
    SAY(cuModuleGetFunction(&function, MADE_UP(CUmodule), "nop"));
    SAY(cuModuleGetGlobal_v2(&at, &bytes, module, "there_is_none"));
    SAY(cuModuleUnload(NULL));
    SAY(cuModuleUnload(MADE_UP(CUmodule)));
    SAY(cuModuleLoad(&wrong, kernels));
    SAY(cuModuleGetFunction(&function, wrong, "nop"));
    SAY(cuModuleUnload(wrong));
    SAY(cuModuleUnload(wrong));
    SAY(cuModuleGetFunction(&function, wrong, "nop"));
}

static void launches(void)
{
    CUdeviceptr at = 0;
    unsigned long long n = 4, seed = 1;
    void *params[3] = {&at, &n, &seed}, *missing[3] = {&at, NULL, &seed};
    CUlaunchConfig config = {.gridDimX = 1, .gridDimY = 1, .gridDimZ = 1};
    SAY(cuLaunchKernel(NULL, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    SAY(cuLaunchKernel(MADE_UP(CUfunction), 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    SAY(cuLaunchKernel(nop, 0, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    SAY(cuLaunchKernel(nop, 1, 70000, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    SAY(cuLaunchKernel(nop, 1, 1, 1, 1025, 1, 1, 0, NULL, NULL, NULL));
    SAY(cuLaunchKernel(nop, 1, 1, 1, 1, 1, 65, 0, NULL, NULL, NULL));
    SAY(cuLaunchKernel(nop, 1, 1, 1, 1, 1, 1, 1 << 20, NULL, NULL, NULL));
    SAY(cuLaunchKernel(nop, 1, 1, 1, 1, 1, 1, 0, MADE_UP(CUstream), NULL, NULL));
    SAY(cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    SAY(cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, NULL, missing, NULL));
    SAY(cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, NULL, params, params));
    SAY(cuLaunchKernelEx(NULL, nop, NULL, NULL));
    SAY(cuLaunchKernelEx(&config, nop, NULL, NULL));
    config.numAttrs = 1;
    config.blockDimX = config.blockDimY = config.blockDimZ = 1;
    SAY(cuLaunchKernelEx(&config, nop, NULL, NULL));
    SAY(cuLaunchCooperativeKernel(nop, 0, 1, 1, 1, 1, 1, 0, NULL, NULL));
    SAY(cuLaunchHostFunc(NULL, NULL, NULL));
    SAY(cuFuncGetAttribute(NULL, CU_FUNC_ATTRIBUTE_NUM_REGS, nop));
    SAY(cuCtxSynchronize());
}

static void streams(void)
{
    CUstream stream = NULL, gone;
    CUevent event = NULL, other = NULL, gone_event;
    CUdeviceptr at = 0;
    CUcontext of = NULL;
    unsigned flags = 0;
    float ms = 0;
    SAY(cuStreamCreate(NULL, 0));
    SAY(cuStreamCreate(&stream, 99));
    SAY(cuStreamDestroy_v2(NULL));
    SAY(cuStreamDestroy_v2(MADE_UP(CUstream)));
    SAY(cuStreamSynchronize(MADE_UP(CUstream)));
    SAY(cuStreamQuery(MADE_UP(CUstream)));
    SAY(cuEventCreate(NULL, 0));
    SAY(cuEventCreate(&event, 0x80));
    SAY(cuEventDestroy_v2(NULL));
    SAY(cuEventDestroy_v2(MADE_UP(CUevent)));
    SAY(cuEventQuery(MADE_UP(CUevent)));
    SAY(cuEventSynchronize(MADE_UP(CUevent)));
    SAY(cuEventRecord(NULL, NULL));
    SAY(cuEventRecord(MADE_UP(CUevent), NULL));
    SAY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    SAY(cuEventCreate(&event, 0));
    SAY(cuEventCreate(&other, CU_EVENT_DISABLE_TIMING));
    SAY(cuEventElapsedTime(&ms, event, event));
    SAY(cuEventElapsedTime(NULL, event, event));
    SAY(cuEventRecord(event, MADE_UP(CUstream)));
    SAY(cuEventRecord(event, stream));
    SAY(cuEventRecord(other, stream));
    SAY(cuEventSynchronize(other));
    SAY(cuEventElapsedTime(&ms, event, other));
    SAY(cuStreamWaitEvent(stream, NULL, 0));
    SAY(cuStreamWaitEvent(stream, MADE_UP(CUevent), 0));
    SAY(cuStreamWaitEvent(MADE_UP(CUstream), event, 0));
    SAY(cuStreamWaitEvent(stream, event, 77));
    SAY(cuStreamGetFlags(stream, NULL));
    SAY(cuMemAlloc_v2(&at, 4 * MIB));
    gone = stream;
    SAY(cuStreamDestroy_v2(stream));
    SAY(cuStreamDestroy_v2(gone));
    SAY(cuStreamSynchronize(gone));
    SAY(cuStreamQuery(gone));
    SAY(cuStreamGetFlags(gone, &flags));
    SAY(cuStreamGetCtx(gone, &of));
    SAY(cuLaunchKernel(nop, 1, 1, 1, 1, 1, 1, 0, gone, NULL, NULL));
    SAY(cuMemcpyHtoDAsync_v2(at, host, 64, gone));
    SAY(cuMemcpyDtoHAsync_v2(host, at, 64, gone));
    SAY(cuMemsetD8Async(at, 1, 64, gone));
    SAY(cuMemAllocAsync(&at, 4096, gone));
    SAY(cuMemFreeAsync(at, gone));
    SAY(cuEventRecord(event, gone));
    SAY(cuStreamWaitEvent(gone, event, 0));
    SAY(cuStreamBeginCapture_v2(gone, CU_STREAM_CAPTURE_MODE_RELAXED));
    SAY(cuStreamAddCallback(gone, NULL, NULL, 0));
    SAY(cuStreamWriteValue32_v2(gone, at, 1, 0));
    gone_event = event;
    SAY(cuEventDestroy_v2(event));
    SAY(cuEventDestroy_v2(gone_event));
    SAY(cuEventQuery(gone_event));
    SAY(cuEventSynchronize(gone_event));
    SAY(cuEventRecord(gone_event, NULL));
    SAY(cuStreamWaitEvent(NULL, gone_event, 0));
    SAY(cuEventElapsedTime(&ms, gone_event, other));
    SAY(cuEventDestroy_v2(other));
    SAY(cuMemFree_v2(at));
}

static void graphs(void)
{
    CUgraph graph = NULL, gone;
    CUgraphExec exec = NULL, gone_exec;
    CUgraphNode node = NULL;
    CUstream stream = NULL;
    SAY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    SAY(cuGraphCreate(NULL, 0));
    SAY(cuGraphCreate(&graph, 1));
    SAY(cuGraphDestroy(NULL));
    SAY(cuGraphDestroy(MADE_UP(CUgraph)));
    SAY(cuGraphLaunch(NULL, stream));
    SAY(cuGraphLaunch(MADE_UP(CUgraphExec), stream));
    SAY(cuGraphExecDestroy(MADE_UP(CUgraphExec)));
    SAY(cuGraphInstantiateWithFlags(&exec, MADE_UP(CUgraph), 0));
    SAY(cuGraphInstantiateWithFlags(NULL, NULL, 0));
    SAY(cuStreamEndCapture(stream, &graph));
    SAY(cuStreamBeginCapture_v2(NULL, CU_STREAM_CAPTURE_MODE_RELAXED));
    SAY(cuStreamBeginCapture_v2(stream, (CUstreamCaptureMode)no_such()));
    SAY(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    SAY(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    SAY(cuStreamSynchronize(stream));
    SAY(cuStreamEndCapture(stream, &graph));
    SAY(cuGraphCreate(&graph, 0));
    SAY(cuGraphAddEmptyNode(&node, graph, NULL, 1));
    SAY(cuGraphAddEmptyNode(NULL, graph, NULL, 0));
    SAY(cuGraphAddEmptyNode(&node, MADE_UP(CUgraph), NULL, 0));
    SAY(cuGraphAddKernelNode_v2(&node, graph, NULL, 0, NULL));
    SAY(cuGraphAddEmptyNode(&node, graph, NULL, 0));
    SAY(cuGraphInstantiateWithFlags(&exec, graph, 0));
    SAY(cuGraphLaunch(exec, MADE_UP(CUstream)));
    SAY(cuGraphLaunch(exec, stream));
    SAY(cuStreamSynchronize(stream));
    gone = graph;
    gone_exec = exec;
    SAY(cuGraphExecDestroy(exec));
    SAY(cuGraphExecDestroy(gone_exec));
    SAY(cuGraphLaunch(gone_exec, stream));
    SAY(cuGraphDestroy(graph));
    SAY(cuGraphDestroy(gone));
    SAY(cuGraphInstantiateWithFlags(&exec, gone, 0));
    SAY(cuStreamDestroy_v2(stream));
}

static void contexts(void)
{
    CUcontext mine = NULL, now = NULL, gone;
    CUstream stream = NULL;
    CUevent event = NULL;
    CUdeviceptr at = 0, of_gone = 0;
    CUmodule loaded = NULL;
    CUdevice device = 0;
    int active = 0, can = 0;
    unsigned flags = 0, version = 0;
    size_t bytes = 0;
    SAY(cuCtxCreate_v2(NULL, 0, 0));
    SAY(cuCtxCreate_v2(&mine, 0, 77));
    SAY(cuCtxCreate_v2(&mine, 0xffff, 0));
    SAY(cuCtxDestroy_v2(NULL));
    SAY(cuCtxDestroy_v2(MADE_UP(CUcontext)));
    SAY(cuCtxDestroy_v2(context)); /* a primary one */
    SAY(cuCtxSetCurrent(MADE_UP(CUcontext)));
    SAY(cuCtxPushCurrent_v2(NULL));
    SAY(cuCtxPushCurrent_v2(MADE_UP(CUcontext)));
    SAY(cuCtxGetCurrent(NULL));
    SAY(cuCtxGetDevice(NULL));
    SAY(cuCtxGetApiVersion(MADE_UP(CUcontext), &version));
    SAY(cuCtxEnablePeerAccess(context, 0));
    SAY(cuDevicePrimaryCtxRetain(NULL, 0));
    SAY(cuDevicePrimaryCtxRetain(&mine, 77));
    SAY(cuDevicePrimaryCtxRelease_v2(77));
    SAY(cuDevicePrimaryCtxReset_v2(77));
    SAY(cuDevicePrimaryCtxGetState(0, NULL, &active));
    SAY(cuDevicePrimaryCtxSetFlags_v2(0, 0xffff));
    SAY(cuDeviceGet(&device, 77));
    SAY(cuDeviceGet(&device, -1));
    SAY(cuDeviceTotalMem_v2(NULL, 0));
    SAY(cuDeviceTotalMem_v2(&bytes, 77));
    SAY(cuDeviceCanAccessPeer(&can, 0, 77));
    SAY(cuCtxPopCurrent_v2(&now));
    SAY(cuCtxPopCurrent_v2(&now));
    SAY(cuMemAlloc_v2(&at, 4 * MIB));
    SAY(cuMemFree_v2(0));
    SAY(cuMemcpyDtoH_v2(host, 4096, 64));
    SAY(cuMemsetD8_v2(4096, 1, 64));
    SAY(cuMemGetInfo_v2(&bytes, &bytes));
    SAY(cuMemAllocAsync(&at, 4096, NULL));
    SAY(cuMemHostAlloc((void **)&now, 64, 0));
    SAY(cuStreamCreate(&stream, 0));
    SAY(cuEventCreate(&event, 0));
    SAY(cuModuleLoadData(&loaded, garbage));
    SAY(cuModuleLoad(&loaded, kernels));
    SAY(cuLaunchKernel(nop, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    SAY(cuCtxSynchronize());
    SAY(cuCtxGetDevice(&device));
    SAY(cuCtxSetCurrent(context));
    SAY(cuCtxCreate_v2(&mine, 0, 0));
    SAY(cuMemAlloc_v2(&of_gone, 4 * MIB));
    SAY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    SAY(cuEventCreate(&event, 0));
    SAY(cuEventRecord(event, NULL));
    SAY(cuModuleLoad(&loaded, kernels));
    gone = mine;
    SAY(cuCtxDestroy_v2(mine));
    SAY(cuCtxDestroy_v2(gone));
    SAY(cuCtxGetCurrent(&now));
    TELL(now == context);
    SAY(cuCtxSetCurrent(gone));
    SAY(cuCtxPushCurrent_v2(gone));
    SAY(cuMemFree_v2(of_gone));
    SAY(cuMemcpyDtoH_v2(host, of_gone, 64));
    SAY(cuMemGetAddressRange_v2(&at, &bytes, of_gone));
    SAY(cuCtxEnablePeerAccess(gone, 0));
    SAY(cuStreamSynchronize(stream));
    SAY(cuMemsetD8Async(at, 1, 64, stream));
    SAY(cuEventQuery(event));
    SAY(cuStreamDestroy_v2(stream));
    SAY(cuEventDestroy_v2(event));
    SAY(cuModuleUnload(loaded));
    SAY(cuCtxCreate_v2(&mine, 0, 0));
    SAY(cuMemAlloc_v2(&at, 4 * MIB));
    SAY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    SAY(cuCtxPopCurrent_v2(&now));
    TELL(now == mine);
    SAY(cuMemsetD8_v2(at, 1, 64)); /* from another context of the same device */
    SAY(cuMemsetD8Async(at, 1, 64, stream));
    SAY(cuStreamSynchronize(stream));
    SAY(cuMemFree_v2(at));
    SAY(cuCtxDestroy_v2(mine));
    SAY(cuCtxGetFlags(&flags));
}

static struct theirs theirs; /* what another process has */

static void of_another_process(void)
{
    CUdeviceptr at = 0;
    CUmemAllocationProp told;
    CUevent event = NULL;
    int file = -1;
    SAY(cuMemRelease(theirs.handle));
    SAY(cuMemGetAllocationPropertiesFromHandle(&told, theirs.handle));
    SAY(cuMemExportToShareableHandle(&file, theirs.handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                     0));
    SAY(cuIpcOpenMemHandle_v2(&at, theirs.ipc, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    SAY(cuIpcCloseMemHandle(theirs.memory));
    SAY(cuIpcOpenEventHandle(&event, (CUipcEventHandle){"made up"}));
    SAY(cuIpcGetEventHandle(NULL, NULL));
}

static void make_all(void)
{
    modules();
    launches();
    streams();
    graphs();
    contexts();
    of_another_process();
}

int main(int argc, char **argv)
{
    if (argc < 3) {
        return 64;
    }
    int is_other = strcmp(argv[1], "theirs") == 0;
    kernels = is_other ? getenv("KERNELS") : argv[1];
    garbage = calloc(1, GARBAGE_BYTES);
    memset(garbage, 'g', GARBAGE_BYTES - 1);
    if (!is_other && fetch_theirs(kernels, &theirs) != 0) {
        return 3;
    }
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    if (is_other) {
        return make_theirs(kernels, atoi(argv[2]));
    }
    OK(cuModuleLoad(&module, kernels));
    OK(cuModuleGetFunction(&nop, module, "nop"));
    OK(cuModuleGetFunction(&fill, module, "fill_u64"));
    CUdeviceptr ballast = mistakes_ballast(48 * MIB);
    int code = mistakes_repeat(make_all, atol(argv[2]));
    return mistakes_ballast_is_whole(ballast, 48 * MIB) ? code : 2;
}
