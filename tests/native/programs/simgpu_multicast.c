/* Multicast objects: one address for memory of two GPUs, in one process and in two.
 *
 * The second process is forked before the driver is used, and opens the object by its descriptor. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include "simgpu_check.h"

typedef unsigned long long u64;

#define MIB (1ull << 20)
#define BYTES (4 * MIB)
#define WORDS (BYTES / 8)

static CUmemGenericAllocationHandle create(CUdevice device, unsigned types)
{
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .requestedHandleTypes = types,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, device}};
    OK(cuMemCreate(&handle, BYTES, &prop, 0));
    return handle;
}

static CUdeviceptr map(CUmemGenericAllocationHandle handle, CUdevice device)
{
    CUdeviceptr at;
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, device},
                              CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    OK(cuMemAddressReserve(&at, BYTES, 0, 0, 0));
    OK(cuMemMap(at, BYTES, 0, handle, 0));
    OK(cuMemSetAccess(at, BYTES, &access, 1));
    return at;
}

static void unmap(CUdeviceptr at)
{
    OK(cuMemUnmap(at, BYTES));
    OK(cuMemAddressFree(at, BYTES));
}

static u64 word(CUdeviceptr at, u64 index)
{
    u64 value = 0;
    OK(cuMemcpyDtoH_v2(&value, at + index * 8, 8));
    return value;
}

static void count_from(CUdeviceptr at, u64 first)
{
    u64 n = WORDS;
    LAUNCH(kernel("multimem_count_u64"), NULL, &at, &n, &first);
    OK(cuCtxSynchronize());
}

static u64 sum_of(CUdeviceptr at, u64 index)
{
    CUdeviceptr sums;
    u64 one = 1, value;
    at += index * 8;
    OK(cuMemAlloc_v2(&sums, 8));
    LAUNCH(kernel("multimem_sum_u64"), NULL, &sums, &at, &one);
    value = word(sums, 0);
    OK(cuMemFree_v2(sums));
    return value;
}

/* ---- what is refused ---- */

static void mistakes(void)
{
    CUmemGenericAllocationHandle team, memory = create(0, 0);
    CUmulticastObjectProp prop = {.numDevices = 1, .size = BYTES};
    CUmulticastObjectProp wrong[] = {{.size = BYTES},
                                     {.numDevices = 1},
                                     {.numDevices = 1, .size = BYTES - 1},
                                     {.numDevices = 99, .size = BYTES},
                                     {.numDevices = 1, .size = BYTES, .flags = 1}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        EXPECT(CUDA_ERROR_INVALID_VALUE, cuMulticastCreate(&team, &wrong[i]));
    }
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMulticastAddDevice(memory, 0));
    OK(cuMulticastCreate(&team, &prop));
    EXPECT(CUDA_ERROR_INVALID_DEVICE, cuMulticastAddDevice(team, 7));
    OK(cuMulticastAddDevice(team, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMulticastAddDevice(team, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMulticastAddDevice(team, 1)); /* it has all */
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMulticastBindMem(team, 0, memory, 0, BYTES, 1));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMulticastBindMem(team, 0, team, 0, BYTES, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMulticastBindMem(team, 2 * MIB, memory, 0, BYTES, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMulticastBindMem(team, 0, memory, 2 * MIB, BYTES, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMulticastBindMem(team, 0, memory, 0, MIB, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMulticastBindMem_v2(team, 1, 0, memory, 0, BYTES, 0));
    CUmemGenericAllocationHandle other = create(1, 0); /* of a GPU that is not in it */
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMulticastBindMem(team, 0, other, 0, BYTES, 0));
    OK(cuMulticastBindMem(team, 0, memory, 0, BYTES, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMulticastBindMem(team, 0, memory, 0, 2 * MIB, 0));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMulticastUnbind(team, 0, 0, 2 * MIB));
    OK(cuMulticastUnbind(team, 0, 0, BYTES));
    int file;
    EXPECT(CUDA_ERROR_INVALID_VALUE,
           cuMemExportToShareableHandle(&file, team, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    OK(cuMemRelease(team));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuMemRelease(team));
    OK(cuMemRelease(other));
    OK(cuMemRelease(memory));
}

/* ---- two GPUs of one process ---- */

static CUmemGenericAllocationHandle team, memory[2];
static int bound;

static void *bind_first(void *context)
{
    OK(cuCtxSetCurrent(context));
    OK(cuMulticastBindMem(team, 0, memory[0], 0, BYTES, 0));
    __atomic_store_n(&bound, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* Binding waits until all GPUs are there. */
static void bind_while_one_is_missing(CUcontext context)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, bind_first, context) == 0);
    usleep(50000);
    CHECK(!__atomic_load_n(&bound, __ATOMIC_ACQUIRE));
    OK(cuMulticastAddDevice(team, 1));
    CHECK(pthread_join(thread, NULL) == 0);
}

static void one_process(CUcontext context)
{
    CUmulticastObjectProp prop = {.numDevices = 2, .size = BYTES};
    CUmemGenericAllocationHandle same;
    CUdeviceptr own[2];
    for (CUdevice device = 0; device < 2; device++) {
        memory[device] = create(device, 0);
        own[device] = map(memory[device], 0);
    }
    OK(cuMulticastCreate(&team, &prop));
    OK(cuMulticastAddDevice(team, 0));
    bind_while_one_is_missing(context);
    /* The halves change places on the second GPU. */
    OK(cuMulticastBindMem_v2(team, 1, 0, memory[1], 2 * MIB, 2 * MIB, 0));
    OK(cuMulticastBindAddr(team, 2 * MIB, own[1], 2 * MIB, 0));
    CUdeviceptr at = map(team, 0);
    count_from(at, 100);
    CHECK(word(own[0], 5) == 105 && word(own[0], WORDS - 1) == 99 + WORDS);
    CHECK(word(own[1], WORDS / 2 + 5) == 105 && word(own[1], 0) == 100 + WORDS / 2);
    CHECK(sum_of(at, 7) == 214);
    OK(cuMemRetainAllocationHandle(&same, (void *)(uintptr_t)at));
    CHECK(same == team);
    OK(cuMemRelease(same));
    OK(cuMulticastUnbind(team, 0, 0, BYTES));
    OK(cuMulticastUnbind(team, 1, 0, 2 * MIB));
    OK(cuMulticastUnbind(team, 1, 2 * MIB, 2 * MIB));
    OK(cuMemRelease(team)); /* the mapping keeps it */
    unmap(at);
    CHECK(word(own[0], 5) == 105);
    for (int i = 0; i < 2; i++) {
        unmap(own[i]);
        OK(cuMemRelease(memory[i]));
    }
}

/* ---- two processes ---- */

static void tell(int to, u64 value) { CHECK(write(to, &value, sizeof value) == sizeof value); }

static u64 hear(int from)
{
    u64 value = 0;
    CHECK(read(from, &value, sizeof value) == sizeof value);
    return value;
}

/* What a process does with its own GPU; the object has both. */
static CUdeviceptr join(CUdevice device, CUmemGenericAllocationHandle object, CUdeviceptr *own)
{
    CUmemGenericAllocationHandle mine = create(device, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    OK(cuMulticastAddDevice(object, device));
    OK(cuMulticastBindMem(object, 0, mine, 0, BYTES, 0));
    *own = map(mine, device);
    return map(object, device);
}

static int second(int from, int to)
{
    char path[64];
    CUmemGenericAllocationHandle object;
    CUcontext context;
    CUdeviceptr own;
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)getppid(), (int)hear(from));
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 1));
    OK(cuCtxSetCurrent(context));
    int file = open(path, O_RDWR);
    OK(cuMemImportFromShareableHandle(&object, (void *)(intptr_t)file,
                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    CUdeviceptr at = join(1, object, &own);
    tell(to, 1);
    CHECK(hear(from) == 2);
    CHECK(word(own, 3) == 1003);
    tell(to, sum_of(at, 3));
    CHECK(hear(from) == 3);
    return 0;
}

static void two_processes(int from, int to)
{
    CUmulticastObjectProp prop = {
        .numDevices = 2, .size = BYTES, .handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR};
    CUmemGenericAllocationHandle object;
    CUdeviceptr own;
    int file;
    OK(cuMulticastCreate(&object, &prop));
    OK(cuMemExportToShareableHandle(&file, object, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
    tell(to, (u64)file);
    CUdeviceptr at = join(0, object, &own);
    CHECK(hear(from) == 1);
    count_from(at, 1000);
    CHECK(word(own, 3) == 1003);
    tell(to, 2);
    CHECK(hear(from) == 2006);
    OK(cuMulticastUnbind(object, 0, 0, BYTES));
    tell(to, 3);
}

static void illegal(CUcontext context)
{
    CUdeviceptr plain;
    u64 n = 1, first = 0;
    OK(cuCtxSetCurrent(context));
    OK(cuMemAlloc_v2(&plain, 8));
    LAUNCH(kernel("multimem_count_u64"), NULL, &plain, &n, &first);
    EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
}

int main(void)
{
    int down[2], up[2], can = 0;
    size_t step = 0;
    CUmulticastObjectProp prop = {.numDevices = 2, .size = BYTES};
    CHECK(pipe(down) == 0 && pipe(up) == 0);
    pid_t child = fork();
    if (child == 0) {
        return second(down[0], up[1]);
    }
    CUcontext context = begin();
    OK(cuDeviceGetAttribute(&can, CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED, 0));
    if (!can) {
        EXPECT(CUDA_ERROR_NOT_SUPPORTED, cuMulticastCreate(&team, &prop));
        puts("cannot");
        return kill(child, SIGKILL);
    }
    OK(cuMulticastGetGranularity(&step, &prop, CU_MULTICAST_GRANULARITY_MINIMUM));
    CHECK(step == 2 * MIB);
    mistakes();
    one_process(context);
    two_processes(up[0], down[1]);
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    illegal(context);
    puts("ok");
    return 0;
}
