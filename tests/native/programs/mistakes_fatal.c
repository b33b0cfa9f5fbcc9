/* Mistakes that end a context: each in a process of its own, with what every other call says afterwards.
 *
 *   mistakes_fatal KERNELS */
#include <sys/wait.h>
#include <unistd.h>

#include "mistakes.h"

#define NOWHERE ((CUdeviceptr)0x123456000ull)

static CUcontext context;
static CUmodule module;
static CUfunction fill, nop;
static CUdeviceptr whole; /* fine, and stays so */
static const char *kernels;

static CUresult launch(CUdeviceptr at, CUstream stream)
{
    unsigned long long n = 64, seed = 3;
    return cuLaunchKernel(fill, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){&at, &n, &seed}, NULL);
}

static void kernel_nowhere(void) { SAY(launch(NOWHERE, NULL)); }

static void kernel_on_null(void) { SAY(launch(0, NULL)); }

static void kernel_on_freed(void)
{
    CUdeviceptr at;
    SAY(cuMemAlloc_v2(&at, 6 * MIB));
    SAY(launch(at, NULL));
    SAY(cuMemFree_v2(at));
    SAY(launch(at, NULL));
}

static void kernel_far_behind(void) { SAY(launch(whole + 64 * MIB, CU_STREAM_PER_THREAD)); }

static void kernel_on_freed_pool(void)
{
    CUdeviceptr at;
    SAY(cuMemAllocAsync(&at, 4 * MIB, NULL));
    SAY(launch(at, NULL));
    SAY(cuMemFreeAsync(at, NULL));
    SAY(cuCtxSynchronize());
    SAY(launch(at, NULL));
}

static void set_on_a_gap(void)
{
    CUdeviceptr at;
    SAY(cuMemAddressReserve(&at, 8 * MIB, 0, 0, 0));
    SAY(cuMemsetD8_v2(at, 1, 64));
}

static void kernel_without_access(void)
{
    CUdeviceptr at;
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    SAY(cuMemAddressReserve(&at, 2 * MIB, 0, 0, 0));
    SAY(cuMemCreate(&handle, 2 * MIB, &prop, 0));
    SAY(cuMemMap(at, 2 * MIB, 0, handle, 0));
    SAY(launch(at, NULL));
}

static void kernel_to_read_only(void)
{
    CUdeviceptr at;
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READ};
    SAY(cuMemAddressReserve(&at, 2 * MIB, 0, 0, 0));
    SAY(cuMemCreate(&handle, 2 * MIB, &prop, 0));
    SAY(cuMemMap(at, 2 * MIB, 0, handle, 0));
    SAY(cuMemSetAccess(at, 2 * MIB, &access, 1));
    SAY(launch(at, NULL));
}

static void graph_on_freed(void)
{
    CUdeviceptr at;
    CUgraph graph;
    CUgraphExec exec;
    CUstream stream;
    SAY(cuMemAlloc_v2(&at, 6 * MIB));
    SAY(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    SAY(cuStreamBeginCapture_v2(stream, CU_STREAM_CAPTURE_MODE_RELAXED));
    SAY(launch(at, stream));
    SAY(cuStreamEndCapture(stream, &graph));
    SAY(cuGraphInstantiateWithFlags(&exec, graph, 0));
    SAY(cuGraphLaunch(exec, stream));
    SAY(cuStreamSynchronize(stream));
    SAY(cuMemFree_v2(at));
    SAY(cuGraphLaunch(exec, stream));
    SAY(cuStreamSynchronize(stream));
}

static void write_to_nowhere(void) { SAY(cuStreamWriteValue32_v2(NULL, NOWHERE, 1, 0)); }

static void in_another_context(void)
{
    CUcontext mine, now;
    SAY(cuCtxCreate_v2(&mine, 0, 0));
    SAY(launch(NOWHERE, NULL));
    SAY(cuCtxSynchronize());
    SAY(cuCtxPopCurrent_v2(&now));
    SAY(launch(whole, NULL)); /* this one is not ended */
    SAY(cuCtxDestroy_v2(mine));
}

static void (*const cases[])(void) = {
    kernel_nowhere,       kernel_on_null,   kernel_on_freed,       kernel_far_behind,
    kernel_on_freed_pool, set_on_a_gap,     kernel_without_access, kernel_to_read_only,
    graph_on_freed,       write_to_nowhere, in_another_context,
};
#define CASES (sizeof(cases) / sizeof(cases[0]))

/* What is said of everything else once the context is at its end. */
static void afterwards(void)
{
    static char host[64];
    CUdeviceptr at = 0, base = 0;
    CUstream stream = NULL;
    CUevent event = NULL;
    CUmodule another = NULL;
    CUcontext again = NULL;
    CUmemGenericAllocationHandle handle = 0;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    size_t bytes = 0, total = 0;
    unsigned word = 0;
    void *pinned = NULL;
    SAY(cuCtxSynchronize());
    SAY(cuCtxSynchronize());
    SAY(cuStreamSynchronize(NULL));
    SAY(cuStreamQuery(NULL));
    SAY(launch(whole, NULL));
    SAY(cuLaunchKernel(nop, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
    SAY(cuMemcpyDtoH_v2(host, whole, 64));
    SAY(cuMemcpyHtoD_v2(whole, host, 64));
    SAY(cuMemcpyHtoD_v2(NOWHERE, host, 64));
    SAY(cuMemcpyHtoD_v2(whole + 8 * MIB - 32, host, 64));
    SAY(cuMemsetD8_v2(whole, 1, 64));
    SAY(cuMemsetD8Async(whole, 1, 64, NULL));
    SAY(cuMemAlloc_v2(&at, 4 * MIB));
    SAY(cuMemAlloc_v2(&at, 100));
    SAY(cuMemAlloc_v2(&at, 0));
    SAY(cuMemAllocPitch_v2(&at, &bytes, 100, 100, 4));
    SAY(cuMemAllocManaged(&at, 4 * MIB, CU_MEM_ATTACH_GLOBAL));
    SAY(cuMemAllocAsync(&at, 4 * MIB, NULL));
    SAY(cuMemFreeAsync(whole, NULL));
    SAY(cuMemFree_v2(NOWHERE));
    SAY(cuMemFree_v2(whole));
    SAY(cuMemFree_v2(0));
    SAY(cuMemGetInfo_v2(&bytes, &total));
    SAY(cuMemGetAddressRange_v2(&base, &bytes, whole));
    SAY(cuPointerGetAttribute(&word, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, whole));
    SAY(cuMemCreate(&handle, 2 * MIB, &prop, 0));
    SAY(cuMemRelease(handle));
    SAY(cuMemHostAlloc(&pinned, 4096, 0));
    SAY(cuStreamCreate(&stream, 0));
    SAY(cuEventCreate(&event, 0));
    SAY(cuModuleLoad(&another, kernels));
    SAY(cuIpcGetMemHandle((CUipcMemHandle *)host, whole));
    SAY(cuDeviceTotalMem_v2(&total, 0));
    SAY(cuDevicePrimaryCtxRetain(&again, 0));
    TELL(again == context);
    SAY(cuDevicePrimaryCtxReset_v2(0));
    SAY(cuMemAlloc_v2(&at, 4 * MIB));
    SAY(cuDevicePrimaryCtxRetain(&again, 0));
    SAY(cuCtxSetCurrent(again));
    SAY(cuMemAlloc_v2(&at, 4 * MIB));
    SAY(cuMemsetD8_v2(at, 1, 64));
    SAY(cuCtxSynchronize());
    SAY(cuMemFree_v2(at));
    SAY(cuDevicePrimaryCtxRelease_v2(0));
}

static int run(size_t which)
{
    mistakes_out = stdout;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuModuleLoad(&module, kernels));
    OK(cuModuleGetFunction(&fill, module, "fill_u64"));
    OK(cuModuleGetFunction(&nop, module, "nop"));
    mistakes_ballast(40 * MIB);
    OK(cuMemAlloc_v2(&whole, 8 * MIB));
    printf("case %zu\n", which);
    cases[which]();
    afterwards();
    return 0;
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc > 2) {
        size_t which = (size_t)atol(argv[2]);
        kernels = getenv("KERNELS");
        return which < CASES ? run(which) : 64;
    }
    setenv("KERNELS", argc > 1 ? argv[1] : "", 1);
    for (size_t i = 0; i < CASES; i++) {
        char number[16];
        int status;
        snprintf(number, sizeof(number), "%zu", i);
        pid_t child = fork();
        if (child == 0) {
            execl("/proc/self/exe", "mistakes_fatal", "case", number, NULL);
            _exit(1);
        }
        waitpid(child, &status, 0);
        printf("status %d\n", status);
    }
    return 0;
}
