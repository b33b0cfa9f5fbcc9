/* What is told of memory of every kind: a line for each question, and the same as without moiety, however
 * often the memory leaves between them.
 *
 *   asks KERNELS ROUNDS   (0: until SIGUSR1) */
#include <unistd.h>

#include "mistakes.h"

typedef unsigned long long u64;

#define ATTRIBUTES 20 /* from 1 on: those that are answered everywhere */

static CUcontext context;
static CUmemoryPool pool;
static CUmodule module;
static char plain[8192];

/* Numbers that differ from run to run are told by what they mean. */
static void tell(CUpointer_attribute attribute, u64 value, CUdeviceptr at)
{
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
        fprintf(mistakes_out, " %s", value == (u64)(uintptr_t)context ? "the context" : "another");
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
        fprintf(mistakes_out, " at %+lld", value ? (long long)(value - at) : 0);
        break;
    case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
        fprintf(mistakes_out, " %s", value ? "a number" : "none");
        break;
    case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        fprintf(mistakes_out, " %s",
                value == (u64)(uintptr_t)pool ? "the pool"
                : value                       ? "another"
                                              : "none");
        break;
    default:
        fprintf(mistakes_out, " %lld", (long long)value);
    }
}

static void ask(const char *what, CUdeviceptr at)
{
    CUpointer_attribute all[ATTRIBUTES];
    u64 values[ATTRIBUTES] = {0};
    void *places[ATTRIBUTES];
    CUdeviceptr base = 0;
    size_t bytes = 0;
    int count = 0;
    fprintf(mistakes_out, "%s\n", what);
    for (int i = 1; i <= ATTRIBUTES; i++) {
        CUpointer_attribute attribute = (CUpointer_attribute)i;
        u64 value = 0;
        /* It writes as many bytes as it has, and tokens of other APIs are more than we have. */
        if (attribute == CU_POINTER_ATTRIBUTE_P2P_TOKENS) {
            continue;
        }
        CUresult result = cuPointerGetAttribute(&value, attribute, at);
        fprintf(mistakes_out, "  %d: %d", i, (int)result);
        if (result == CUDA_SUCCESS) {
            tell(attribute, value, at);
        }
        fputc('\n', mistakes_out);
        all[count] = attribute;
        places[count] = &values[count];
        count++;
    }
    SAY(cuPointerGetAttributes((unsigned)count, all, places, at));
    for (int i = 0; i < count; i++) {
        fprintf(mistakes_out, "  %d:", (int)all[i]);
        tell(all[i], values[i], at);
        fputc('\n', mistakes_out);
    }
    SAY(cuMemGetAddressRange_v2(&base, &bytes, at));
    TELL(base ? (long long)(base - at) : 0);
    TELL(bytes);
    SAY(cuMemGetAddressRange_v2(NULL, &bytes, at));
    SAY(cuMemGetAddressRange_v2(&base, NULL, at));
}

static void device_memory(void)
{
    CUdeviceptr at, small;
    size_t pitch;
    int file = -1;
    OK(cuMemAlloc_v2(&at, 5 * MIB + 100));
    OK(cuMemAlloc_v2(&small, 3000));
    ask("allocated", at);
    ask("allocated, inside", at + 3 * MIB + 7);
    ask("allocated, its last byte", at + 5 * MIB + 99);
    ask("allocated, behind it", at + 5 * MIB + 100);
    ask("small", small);
    ask("small, inside", small + 2999);
    ask("small, behind it", small + 3000);
    OK(cuMemFree_v2(small));
    ask("small, freed", small);
    SAY(cuPointerSetAttribute(&(unsigned){1}, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at));
    SAY(cuMemGetHandleForAddressRange(&file, at, 2 * MIB, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0));
    OK(cuMemFree_v2(at));
    ask("freed", at);
    OK(cuMemAllocPitch_v2(&at, &pitch, 1000, 3000, 4));
    TELL(pitch);
    ask("with a pitch", at + pitch);
    OK(cuMemFree_v2(at));
}

static void pooled_memory(void)
{
    CUdeviceptr at;
    CUmemLocation here = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    CUmemAccess_flags access;
    OK(cuMemAllocAsync(&at, 3 * MIB, NULL));
    ask("pooled", at);
    ask("pooled, inside", at + MIB);
    SAY(cuMemPoolGetAccess(&access, pool, &here));
    TELL(access);
    OK(cuMemFreeAsync(at, NULL));
    OK(cuCtxSynchronize());
    OK(cuMemPoolTrimTo(pool, 0));
    ask("pooled, freed", at);
}

static void mapped_memory(void)
{
    CUdeviceptr at;
    CUmemGenericAllocationHandle handle;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READ};
    OK(cuMemAddressReserve(&at, 16 * MIB, 0, 0, 0));
    ask("reserved", at);
    OK(cuMemCreate(&handle, 4 * MIB, &prop, 0));
    OK(cuMemMap(at + 2 * MIB, 4 * MIB, 0, handle, 0));
    ask("mapped", at + 2 * MIB);
    OK(cuMemSetAccess(at + 2 * MIB, 4 * MIB, &access, 1));
    ask("mapped, to be read", at + 2 * MIB);
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    OK(cuMemSetAccess(at + 2 * MIB, 4 * MIB, &access, 1));
    ask("mapped, inside", at + 4 * MIB + 5);
    ask("beside what is mapped", at + 8 * MIB);
    OK(cuMemRelease(handle));
    ask("mapped, without a handle", at + 2 * MIB);
    OK(cuMemUnmap(at + 2 * MIB, 4 * MIB));
    ask("unmapped", at + 2 * MIB);
    OK(cuMemAddressFree(at, 16 * MIB));
}

static void managed_memory(void)
{
    static const CUmem_range_attribute asked[] = {CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY,
                                                  CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION,
                                                  CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION};
    CUdeviceptr at;
    int value;
    OK(cuMemAllocManaged(&at, 3 * MIB, CU_MEM_ATTACH_GLOBAL));
    ask("managed", at);
    ask("managed, inside", at + MIB);
    SAY(cuMemAdvise(at, 3 * MIB, CU_MEM_ADVISE_SET_READ_MOSTLY, 0));
    SAY(cuMemAdvise(at, 3 * MIB, CU_MEM_ADVISE_SET_PREFERRED_LOCATION, 0));
    SAY(cuMemPrefetchAsync(at, 3 * MIB, 0, NULL));
    SAY(cuCtxSynchronize());
    for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
        value = 99;
        SAY(cuMemRangeGetAttribute(&value, sizeof(value), asked[i], at, 3 * MIB));
        TELL(value);
    }
    SAY(cuMemRangeGetAttribute(&value, 3, asked[0], at, 3 * MIB));
    SAY(cuMemRangeGetAttribute(&value, sizeof(value), asked[0], at, 0));
    OK(cuMemFree_v2(at));
}

static void host_memory(void)
{
    void *at;
    CUdeviceptr seen = 0;
    unsigned flags = 0;
    OK(cuMemHostAlloc(&at, 8192, CU_MEMHOSTALLOC_PORTABLE));
    ask("pinned", (CUdeviceptr)(uintptr_t)at);
    SAY(cuMemHostGetDevicePointer_v2(&seen, at, 0));
    TELL(seen - (CUdeviceptr)(uintptr_t)at);
    SAY(cuMemHostGetFlags(&flags, at));
    TELL(flags);
    OK(cuMemFreeHost(at));
    OK(cuMemHostRegister_v2(plain, sizeof(plain), 0));
    ask("registered", (CUdeviceptr)(uintptr_t)plain);
    SAY(cuMemHostGetDevicePointer_v2(&seen, plain + 5, 0));
    TELL(seen - (CUdeviceptr)(uintptr_t)plain);
    OK(cuMemHostUnregister(plain));
    ask("of the program's own", (CUdeviceptr)(uintptr_t)plain);
}

static void arrays(void)
{
    CUDA_ARRAY_DESCRIPTOR wanted = {
        .Width = 256, .Height = 64, .Format = CU_AD_FORMAT_FLOAT, .NumChannels = 1};
    CUDA_ARRAY_DESCRIPTOR told;
    CUarray array = NULL;
    static float words[256], back[256];
    SAY(cuArrayCreate_v2(&array, &wanted));
    SAY(cuArrayGetDescriptor_v2(&told, array));
    TELL(told.Width);
    TELL(told.Height);
    TELL(told.NumChannels);
    words[7] = 1.5F;
    SAY(cuMemcpyHtoA_v2(array, 0, words, sizeof(words)));
    SAY(cuMemcpyAtoH_v2(back, array, 0, sizeof(back)));
    TELL(back[7] * 2);
    SAY(cuArrayDestroy(array));
}

static void make_all(void)
{
    CUmulticastObjectProp prop = {.numDevices = 1, .size = 2 * MIB};
    CUmemGenericAllocationHandle handle = 0;
    CUdeviceptr at = 0;
    size_t bytes = 0;
    device_memory();
    pooled_memory();
    mapped_memory();
    managed_memory();
    host_memory();
    arrays();
    SAY(cuMulticastCreate(&handle, &prop));
    SAY(cuModuleGetGlobal_v2(&at, &bytes, module, "no_such"));
}

int main(int argc, char **argv)
{
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuModuleLoad(&module, argv[1]));
    OK(cuDeviceGetDefaultMemPool(&pool, 0));
    CUdeviceptr ballast = mistakes_ballast(48 * MIB);
    int code = mistakes_repeat(make_all, argc > 2 ? atol(argv[2]) : 1);
    return mistakes_ballast_is_whole(ballast, 48 * MIB) ? code : 2;
}
