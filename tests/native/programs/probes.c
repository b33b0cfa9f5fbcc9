/* What servers ask again and again to see whether the GPU is alive.
 *
 * It makes memory of every kind, says "ready", and reads lines. "probe" calls everything that needs none of its memory on
 * the GPU, each with the right answer, and says "probed"; before each call it writes its name to stderr. "nvml"
 * asks NVML how much memory is used. "use" needs the
 * memory, and says "used". "poll MS" asks for work that is done, again and again for so long, and says "polled". */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cuda/cuda_calls.h"

#define MIB (1ull << 20)
static void expect(int holds, int line, const char *what)
{
    if (!holds) {
        fprintf(stderr, "probes.c:%d: %s does not hold\n", line, what);
        exit(1);
    }
}
#define EXPECT(condition) expect((condition) != 0, __LINE__, #condition)
#define OK(call) EXPECT((call) == CUDA_SUCCESS)
#define PROBE(call)                     \
    do {                                \
        fprintf(stderr, "%s\n", #call); \
        OK(call);                       \
    } while (0)

static CUcontext context;
static CUstream stream;
static CUevent before, after;
static CUdeviceptr large, small, pooled, kept, mapped;
static void *pageable, *page_locked;

static CUdeviceptr map(void)
{
    CUmemGenericAllocationHandle memory;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUdeviceptr at;
    OK(cuMemCreate(&memory, 2 * MIB, &prop, 0));
    OK(cuMemAddressReserve(&at, 2 * MIB, 0, 0, 0));
    OK(cuMemMap(at, 2 * MIB, 0, memory, 0));
    OK(cuMemSetAccess(at, 2 * MIB, &access, 1));
    return at;
}

static void begin(void)
{
    CUmemoryPool pool;
    cuuint64_t all = UINT64_MAX;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    OK(cuEventCreate(&before, 0));
    OK(cuEventCreate(&after, 0));
    OK(cuMemAlloc_v2(&large, 8 * MIB));
    OK(cuMemAlloc_v2(&small, 1000));
    OK(cuDeviceGetMemPool(&pool, 0));
    OK(cuMemPoolSetAttribute(pool, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD, &all));
    OK(cuMemAllocAsync(&pooled, MIB, stream));
    OK(cuMemAllocAsync(&kept, MIB, stream));
    mapped = map();
    pageable = malloc(MIB);
    OK(cuMemAllocHost_v2(&page_locked, MIB));
    OK(cuEventRecord(before, stream));
    OK(cuMemsetD8Async(large, 7, 8 * MIB, stream));
    OK(cuMemFreeAsync(pooled, stream));
    OK(cuEventRecord(after, stream));
    OK(cuStreamSynchronize(stream));
}

/* What cudaPointerGetAttributes asks the driver. */
static void ask_of(CUdeviceptr at, CUmemorytype expected)
{
    unsigned type = 0, managed = 1;
    int ordinal = -1;
    CUdeviceptr device = 0;
    void *host = NULL;
    CUcontext owner = NULL;
    CUpointer_attribute asked[] = {
        CU_POINTER_ATTRIBUTE_CONTEXT,      CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
        CU_POINTER_ATTRIBUTE_IS_MANAGED,   CU_POINTER_ATTRIBUTE_DEVICE_POINTER,
        CU_POINTER_ATTRIBUTE_HOST_POINTER, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL};
    unsigned count = sizeof(asked) / sizeof(asked[0]);
    void *data[] = {&owner, &type, &managed, &device, &host, &ordinal};
    PROBE(cuPointerGetAttributes(count - 1, asked + 1, data + 1, at));
    EXPECT(type == expected && managed == 0);
    if (expected == CU_MEMORYTYPE_DEVICE) {
        EXPECT(device == at && host == NULL && ordinal == 0);
        type = 0;
        PROBE(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, at));
        EXPECT(type == CU_MEMORYTYPE_DEVICE);
    }
    if (at == large) {
        PROBE(cuPointerGetAttributes(count, asked, data, at));
        EXPECT(owner == context);
    }
}

static void ask_device(void)
{
    size_t left = 0, total = 0;
    int value = 0;
    char name[64] = "";
    CUdevice device;
    CUcontext current = NULL;
    PROBE(cuMemGetInfo_v2(&left, &total));
    EXPECT(left < total && total > 0);
    PROBE(cuDeviceTotalMem_v2(&total, 0));
    PROBE(cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0));
    PROBE(cuDeviceGetName(name, sizeof(name), 0));
    PROBE(cuDeviceGetCount(&value));
    PROBE(cuCtxGetCurrent(&current));
    EXPECT(current == context);
    PROBE(cuCtxGetDevice(&device));
    PROBE(cuCtxSetCurrent(context));
}

static void ask_work(void)
{
    float ms = -1;
    CUstreamCaptureStatus status;
    CUevent more;
    CUstream another;
    PROBE(cuEventQuery(after));
    PROBE(cuStreamQuery(stream));
    PROBE(cuStreamQuery(NULL));
    PROBE(cuEventElapsedTime(&ms, before, after));
    EXPECT(ms >= 0);
    PROBE(cuEventSynchronize(after));
    PROBE(cuStreamSynchronize(stream));
    PROBE(cuCtxSynchronize());
    PROBE(cuStreamIsCapturing(stream, &status));
    PROBE(cuEventCreate(&more, 0));
    PROBE(cuEventQuery(more));
    PROBE(cuEventDestroy_v2(more));
    PROBE(cuStreamCreate(&another, 0));
    PROBE(cuStreamDestroy_v2(another));
}

static void ask_memory(void)
{
    CUdeviceptr base, own, next;
    size_t bytes;
    cuuint64_t used = 0;
    CUmemoryPool pool;
    PROBE(cuMemGetAddressRange_v2(&base, &bytes, large + MIB));
    EXPECT(base == large && bytes == 8 * MIB);
    ask_of(large, CU_MEMORYTYPE_DEVICE);
    ask_of(small, CU_MEMORYTYPE_DEVICE);
    ask_of(kept, CU_MEMORYTYPE_DEVICE);
    ask_of(mapped, CU_MEMORYTYPE_DEVICE);
    ask_of((CUdeviceptr)(size_t)page_locked, CU_MEMORYTYPE_HOST);
    fprintf(stderr, "cuPointerGetAttribute of pageable memory\n");
    EXPECT(cuPointerGetAttribute(&bytes, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                 (CUdeviceptr)(size_t)pageable) == CUDA_ERROR_INVALID_VALUE);
    PROBE(cuMemAlloc_v2(&own, 4096));
    PROBE(cuMemAlloc_v2(&next, 100));
    EXPECT(own / (2 * MIB) == small / (2 * MIB) && own != next);
    PROBE(cuMemFree_v2(own));
    PROBE(cuMemFree_v2(next));
    PROBE(cuMemAllocAsync(&own, MIB / 2, stream));
    PROBE(cuMemFreeAsync(own, stream));
    PROBE(cuDeviceGetMemPool(&pool, 0));
    PROBE(cuMemPoolGetAttribute(pool, CU_MEMPOOL_ATTR_USED_MEM_CURRENT, &used));
    EXPECT(used == MIB);
}

static void ask_nvml(void)
{
    struct {
        unsigned long long total, free, used;
    } memory = {0};
    void *device = NULL;
    void *nvml = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    EXPECT(nvml);
    int (*init)(void) = (__typeof__(init))dlsym(nvml, "nvmlInit_v2");
    int (*by_index)(unsigned, void **) =
        (__typeof__(by_index))dlsym(nvml, "nvmlDeviceGetHandleByIndex_v2");
    int (*info)(void *, void *) = (__typeof__(info))dlsym(nvml, "nvmlDeviceGetMemoryInfo");
    EXPECT(init && by_index && info);
    EXPECT(init() == 0 && by_index(0, &device) == 0 && info(device, &memory) == 0);
    EXPECT(memory.total > 0 && memory.used >= 8 * MIB);
}

static void poll(unsigned ms)
{
    struct timespec now, pause = {0, 500000};
    clock_gettime(CLOCK_MONOTONIC, &now);
    long long end = (long long)now.tv_sec * 1000 + now.tv_nsec / 1000000 + ms;
    do {
        OK(cuEventQuery(after));
        OK(cuStreamQuery(stream));
        nanosleep(&pause, NULL);
        clock_gettime(CLOCK_MONOTONIC, &now);
    } while ((long long)now.tv_sec * 1000 + now.tv_nsec / 1000000 < end);
}

int main(void)
{
    char line[64];
    unsigned ms = 0;
    begin();
    printf("ready\n");
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin)) {
        if (!strncmp(line, "probe", 5)) {
            ask_device();
            ask_work();
            ask_memory();
            printf("probed\n");
        } else if (!strncmp(line, "nvml", 4)) {
            ask_nvml();
            printf("probed\n");
        } else if (sscanf(line, "poll %u", &ms) == 1) {
            poll(ms);
            printf("polled\n");
        } else {
            unsigned char byte = 0;
            OK(cuMemcpyDtoH_v2(&byte, large + 5 * MIB, 1));
            EXPECT(byte == 7);
            printf("used\n");
        }
        fflush(stdout);
    }
    return 0;
}
