/* What legacy IPC answers, rightly and wrongly used: one line for each call, the same with moiety as
 * without it.  ipc_errors  runs itself once more as the other process. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cuda/cuda_calls.h"

#define MIB (1ull << 20)
#define SAY(call)                                              \
    do {                                                       \
        printf("%s %d %d %s\n", who, __LINE__, (call), #call); \
        fflush(stdout);                                        \
    } while (0)
#define TELL(value) printf("%s %d %s = %lld\n", who, __LINE__, #value, (long long)(value))

static const char *who = "exporter";

struct offer {
    CUipcMemHandle large, small, freed, dead;
};

static void begin(void)
{
    CUcontext context;
    SAY(cuInit(0));
    SAY(cuDevicePrimaryCtxRetain(&context, 0));
    SAY(cuCtxSetCurrent(context));
}

/* The other one. Reads the offer, says when it has opened and read, and goes on when it is told to. */
static int import(void)
{
    struct offer offer;
    CUipcMemHandle wrong;
    CUdeviceptr at, again, small, base;
    CUcontext other;
    size_t bytes;
    int word;
    char line;
    who = "importer";
    begin();
    if (read(3, &offer, sizeof(offer)) != sizeof(offer)) {
        return 1;
    }
    SAY(cuIpcOpenMemHandle_v2(&at, offer.large, 1));
    SAY(cuMemcpyDtoH_v2(&word, at + 12 * MIB, 4));
    TELL(word);
    SAY(cuMemcpyDtoH_v2(&word, at, 4));
    TELL(word);
    SAY(cuIpcOpenMemHandle_v2(&again, offer.large, 1));
    TELL(at == again);
    SAY(cuCtxCreate_v2(&other, 0, 0));
    SAY(cuIpcOpenMemHandle_v2(&again, offer.large, 1));
    SAY(cuCtxDestroy_v2(other));
    SAY(cuMemGetAddressRange_v2(&base, &bytes, at + 5 * MIB));
    TELL(at - base);
    TELL(bytes);
    SAY(cuIpcOpenMemHandle_v2(&small, offer.small, 1));
    SAY(cuMemcpyDtoH_v2(&word, small, 4));
    TELL(word);
    SAY(cuIpcOpenMemHandle_v2(&again, offer.freed, 1));
    SAY(cuIpcOpenMemHandle_v2(&again, offer.dead, 1));
    SAY(cuIpcOpenMemHandle_v2(NULL, offer.large, 1));
    SAY(cuIpcOpenMemHandle_v2(&again, offer.large, 6));
    memset(&wrong, 0, sizeof(wrong));
    SAY(cuIpcOpenMemHandle_v2(&again, wrong, 1));
    wrong = offer.large;
    wrong.reserved[30] ^= 1;
    wrong.reserved[12] ^= 1;
    SAY(cuIpcOpenMemHandle_v2(&again, wrong, 1));
    SAY(cuIpcGetMemHandle(&wrong, at));
    SAY(cuMemFree_v2(at));
    SAY(cuIpcCloseMemHandle(at + 512));
    word = 78;
    SAY(cuMemcpyHtoD_v2(at + 4, &word, 4));
    SAY(cuCtxSynchronize());
    if (write(4, "r", 1) != 1 || read(3, &line, 1) != 1) {
        return 1;
    }
    word = 0; /* the exporter has freed it */
    SAY(cuMemcpyDtoH_v2(&word, at + 4, 4));
    TELL(word);
    SAY(cuIpcOpenMemHandle_v2(&again, offer.large, 1));
    SAY(cuIpcCloseMemHandle(at));
    SAY(cuIpcCloseMemHandle(at));
    SAY(cuIpcCloseMemHandle(at));
    SAY(cuIpcCloseMemHandle(at));
    SAY(cuIpcOpenMemHandle_v2(&again, offer.large, 1));
    SAY(cuIpcCloseMemHandle(small));
    SAY(cuIpcCloseMemHandle(0));
    return 0;
}

/* Exports an allocation, and is gone before anybody opens it. */
static void be_gone(CUipcMemHandle *handle)
{
    int tube[2];
    if (pipe(tube) != 0) {
        exit(1);
    }
    pid_t child = fork();
    if (child == 0) {
        dup2(tube[1], 4);
        execl("/proc/self/exe", "ipc_errors", "gone", NULL);
        _exit(1);
    }
    close(tube[1]);
    if (read(tube[0], handle, sizeof(*handle)) != sizeof(*handle)) {
        exit(1);
    }
    waitpid(child, NULL, 0);
    close(tube[0]);
}

static int gone(void)
{
    CUdeviceptr at;
    CUipcMemHandle handle;
    who = "gone";
    begin();
    SAY(cuMemAlloc_v2(&at, 4 * MIB));
    SAY(cuIpcGetMemHandle(&handle, at));
    return write(4, &handle, sizeof(handle)) != sizeof(handle);
}

static int export(void)
{
    int to[2], from[2], status, word = 77;
    struct offer offer;
    CUipcMemHandle again;
    CUdeviceptr large, small, other;
    char line;
    be_gone(&offer.dead);
    if (pipe(to) != 0 || pipe(from) != 0) {
        return 1;
    }
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        dup2(to[0], 3);
        dup2(from[1], 4);
        execl("/proc/self/exe", "ipc_errors", "import", NULL);
        _exit(1);
    }
    begin();
    SAY(cuMemAlloc_v2(&large, 24 * MIB));
    SAY(cuMemAlloc_v2(&small, 4096));
    SAY(cuMemAlloc_v2(&other, 4 * MIB));
    SAY(cuMemcpyHtoD_v2(large + 12 * MIB, &word, 4));
    SAY(cuMemcpyHtoD_v2(small, &word, 4));
    word = 5;
    SAY(cuMemcpyHtoD_v2(large, &word, 4));
    SAY(cuIpcGetMemHandle(&offer.large, large));
    SAY(cuIpcGetMemHandle(&again, large));
    TELL(!memcmp(&again, &offer.large, sizeof(again)));
    SAY(cuIpcGetMemHandle(&offer.small, small));
    SAY(cuIpcGetMemHandle(&offer.freed, other));
    SAY(cuMemFree_v2(other));
    SAY(cuIpcGetMemHandle(NULL, large));
    SAY(cuIpcGetMemHandle(&again, 0));
    SAY(cuIpcGetMemHandle(&again, other));
    SAY(cuIpcOpenMemHandle_v2(&other, offer.large, 1));
    SAY(cuIpcOpenMemHandle_v2(&other, offer.freed, 1));
    SAY(cuIpcCloseMemHandle(large));
    if (write(to[1], &offer, sizeof(offer)) != sizeof(offer) || read(from[0], &line, 1) != 1) {
        return 1;
    }
    SAY(cuMemcpyDtoH_v2(&word, large + 4, 4));
    TELL(word);
    SAY(cuMemFree_v2(large));
    SAY(cuMemFree_v2(large));
    if (write(to[1], "f", 1) != 1) {
        return 1;
    }
    waitpid(child, &status, 0);
    TELL(status);
    SAY(cuMemFree_v2(small));
    return 0;
}

int main(int argc, char **argv)
{
    if (argc > 1) {
        return strcmp(argv[1], "import") == 0 ? import() : gone();
    }
    return export();
}
