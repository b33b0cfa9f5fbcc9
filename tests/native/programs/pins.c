/* Does what it reads, one word a line, with one allocation, and answers each with the word and the driver's result:
 *
 *   alloc MIB | create MIB   cuMemAlloc, or cuMemCreate and cuMemMap; every byte is set to what `use` expects
 *   begin                    nothing
 *   use                      changes every byte, after a look at some of them: they must be as they were left
 *   peek                     the first byte of it, in place of a result
 *   free                     the allocation, or what `open` opened
 *   ipc                      cuIpcGetMemHandle; the answer has the handle in hexadecimal digits
 *   open HANDLE              cuIpcOpenMemHandle
 *   close                    cuIpcCloseMemHandle
 *   handle                   cuMemExportToShareableHandle, to a descriptor that is closed at once
 *   fail                     the same for a kind of handle that the memory does not have
 *   sync                     CU_POINTER_ATTRIBUTE_SYNC_MEMOPS
 *   legacy                   cuMemAlloc of CUDA 3.1, which pins all of its caller
 *   unknown NAME             a call by its name, as one that no table has; what it gets makes no sense */
#include <stdlib.h>
#include <unistd.h>

#include "simgpu_check.h"

#include <dlfcn.h>

#define MIB (1ull << 20)

static CUdeviceptr at;
static size_t bytes;
static unsigned char left; /* in every byte */
static CUmemGenericAllocationHandle made;

static CUresult set(void)
{
    CUresult result = cuMemsetD8_v2(at, ++left, bytes);
    return result == CUDA_SUCCESS ? cuCtxSynchronize() : result;
}

static CUresult create(size_t wanted)
{
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemAccessDesc access = {{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    CUresult result = cuMemCreate(&made, wanted, &prop, 0);
    if (result == CUDA_SUCCESS) {
        OK(cuMemAddressReserve(&at, wanted, 0, 0, 0));
        OK(cuMemMap(at, wanted, 0, made, 0));
        OK(cuMemSetAccess(at, wanted, &access, 1));
    }
    return result;
}

static CUresult allocate(const char *how, size_t wanted)
{
    CUresult result = *how == 'c' ? create(wanted) : cuMemAlloc_v2(&at, wanted);
    bytes = wanted;
    return result == CUDA_SUCCESS ? set() : result;
}

static CUresult use(void)
{
    for (size_t i = 0; i < 16; i++) {
        unsigned char there;
        OK(cuMemcpyDtoH_v2(&there, at + i * (bytes / 16), 1));
        CHECK(there == left);
    }
    return set();
}

static CUresult export_ipc(char *hex)
{
    CUipcMemHandle handle = {0};
    CUresult result = cuIpcGetMemHandle(&handle, at);
    for (size_t i = 0; i < sizeof(handle.reserved); i++) {
        sprintf(hex + 2 * i, "%02x", (unsigned char)handle.reserved[i]);
    }
    return result;
}

static CUresult import_ipc(const char *hex)
{
    CUipcMemHandle handle;
    for (size_t i = 0; i < sizeof(handle.reserved); i++) {
        unsigned byte = 0;
        CHECK(sscanf(hex + 2 * i, "%2x", &byte) == 1);
        handle.reserved[i] = (char)byte;
    }
    return cuIpcOpenMemHandle_v2(&at, handle, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
}

static CUresult export_handle(CUmemAllocationHandleType type)
{
    int file = -1;
    CUresult result = cuMemExportToShareableHandle(&file, made, type, 0);
    if (file >= 0) {
        close(file);
    }
    return result;
}

static CUresult call(const char *name)
{
    unsigned small = 0;
    unsigned unused[8] = {0};
    void *function = dlsym(RTLD_DEFAULT, name);
    CHECK(function != NULL);
    return strcmp(name, "cuMemAlloc") == 0
               ? ((CUresult (*)(unsigned *, unsigned))(uintptr_t)function)(&small, 4096)
               : ((CUresult (*)(void *, size_t, size_t, size_t, size_t, size_t))(
                     uintptr_t)function)(unused, 0, 0, 0, 0, 0);
}

static CUresult do_one(const char *word, const char *argument, char *hex)
{
    unsigned yes = 1;
    if (!strcmp(word, "alloc") || !strcmp(word, "create")) {
        return allocate(word, strtoull(argument, NULL, 10) * MIB);
    }
    if (!strcmp(word, "use")) {
        return use();
    }
    if (!strcmp(word, "peek")) {
        unsigned char there = 0;
        OK(cuMemcpyDtoH_v2(&there, at, 1));
        return there;
    }
    if (!strcmp(word, "begin")) {
        return CUDA_SUCCESS;
    }
    if (!strcmp(word, "free")) {
        return cuMemFree_v2(at);
    }
    if (!strcmp(word, "ipc")) {
        return export_ipc(hex);
    }
    if (!strcmp(word, "open")) {
        return import_ipc(argument);
    }
    if (!strcmp(word, "close")) {
        return cuIpcCloseMemHandle(at);
    }
    if (!strcmp(word, "handle")) {
        return export_handle(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    }
    if (!strcmp(word, "fail")) {
        return export_handle(CU_MEM_HANDLE_TYPE_FABRIC);
    }
    if (!strcmp(word, "sync")) {
        return cuPointerSetAttribute(&yes, CU_POINTER_ATTRIBUTE_SYNC_MEMOPS, at);
    }
    return call(!strcmp(word, "legacy") ? "cuMemAlloc" : argument);
}

int main(void)
{
    char line[512];
    CUcontext context;
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    while (fgets(line, sizeof(line), stdin)) {
        char word[32] = "";
        char argument[256] = "";
        char hex[sizeof(CUipcMemHandle) * 2 + 1] = "";
        CHECK(sscanf(line, "%31s %255s", word, argument) >= 1);
        CUresult result = do_one(word, argument, hex);
        printf("%s %d%s%s\n", word, (int)result, *hex ? " " : "", hex);
        fflush(stdout);
    }
    return 0;
}
