/* What another process has is nothing here: it tells us the numbers of what it made. */
#ifndef MISTAKES_THEIRS_H
#define MISTAKES_THEIRS_H

#include <sys/wait.h>
#include <unistd.h>

#include "mistakes.h"

struct theirs {
    CUdeviceptr memory, pooled;
    CUcontext context;
    CUmodule module;
    CUfunction function;
    CUstream stream;
    CUevent event;
    CUmemoryPool pool;
    CUmemGenericAllocationHandle handle;
    CUgraphExec exec;
    CUipcMemHandle ipc;
};

static inline int make_theirs(const char *kernels, int out)
{
    struct theirs theirs;
    CUgraph graph;
    CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                                .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
    memset(&theirs, 0, sizeof(theirs));
    for (int i = 0; i < 40; i++) { /* so that it is not, by chance, where ours is */
        OK(cuMemAlloc_v2(&theirs.memory, MIB / 2));
        OK(cuStreamCreate(&theirs.stream, 0));
    }
    OK(cuCtxCreate_v2(&theirs.context, 0, 0));
    OK(cuMemAlloc_v2(&theirs.memory, 4 * MIB));
    OK(cuModuleLoad(&theirs.module, kernels));
    OK(cuModuleGetFunction(&theirs.function, theirs.module, "nop"));
    OK(cuStreamCreate(&theirs.stream, 0));
    OK(cuMemAllocAsync(&theirs.pooled, 4 * MIB, theirs.stream));
    OK(cuEventCreate(&theirs.event, CU_EVENT_DISABLE_TIMING));
    OK(cuMemPoolCreate(&theirs.pool, &props));
    OK(cuMemCreate(&theirs.handle, 2 * MIB, &prop, 0));
    OK(cuGraphCreate(&graph, 0));
    OK(cuGraphInstantiateWithFlags(&theirs.exec, graph, 0));
    OK(cuIpcGetMemHandle(&theirs.ipc, theirs.memory));
    return write(out, &theirs, sizeof(theirs)) != sizeof(theirs);
}

/* Asked for once, before anything is repeated: it is gone again when they are used. */
static inline int fetch_theirs(const char *kernels, struct theirs *theirs)
{
    int tube[2], status;
    char number[16];
    if (pipe(tube) != 0) {
        return -1;
    }
    snprintf(number, sizeof(number), "%d", tube[1]);
    pid_t child = fork();
    if (child == 0) {
        setenv("KERNELS", kernels, 1);
        execl("/proc/self/exe", "mistakes_objects", "theirs", number, NULL);
        _exit(1);
    }
    close(tube[1]);
    int got = read(tube[0], theirs, sizeof(*theirs)) == sizeof(*theirs);
    close(tube[0]);
    waitpid(child, &status, 0);
    return got && status == 0 ? 0 : -1;
}

#endif
