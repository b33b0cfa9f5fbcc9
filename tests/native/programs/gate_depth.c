/* Every call that the tables know, with arguments that are all zero, twice: also while this thread's own stream is
 * captured. After each of them this thread is inside no call any more, as the counters that the agent reads have it.
 *
 *   gate_depth
 *
 * Says which call left the gate too seldom or too often, which one crashed, and how many there were. */
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cuda/cuda_calls.h"
#include "wire/wire.h"

typedef long zero;
/* More parameters than any call has; those that a call does not have do no harm. */
typedef CUresult (*any_call)(zero, zero, zero, zero, zero, zero, zero, zero, zero, zero, zero, zero,
                             zero, zero, zero, zero, zero, zero, zero, zero, zero, zero, zero,
                             zero);
#define WITH_ZEROS(call) \
    (call)(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)

static const struct {
    const char *name;
    any_call call;
} calls[] = {
#define ONE(name) {#name, (any_call)(void *)name},
#define CUDA_CALL(name, parameters, arguments) ONE(name)
#define CUDA_CALL_DS(name, parameters, arguments) ONE(name) ONE(name##_ptds)
#define CUDA_CALL_SZ(name, parameters, arguments) ONE(name) ONE(name##_ptsz)
#include "cuda/cuda_calls.def"
#define PLAIN(class, name, symbol, since) ONE(symbol)
#define PLAIN_DS(class, name, symbol, since, since_ptds) ONE(symbol) ONE(symbol##_ptds)
#define PLAIN_SZ(class, name, symbol, since, since_ptsz) ONE(symbol) ONE(symbol##_ptsz)
#include "cuda/plain_calls.def"
};

static sigjmp_buf before_call;

static void crashed(int number) { siglongjmp(before_call, number); }

/* This thread's slot in the counters that the agent reads. */
static struct mw_slot *own_slot(void)
{
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    struct mw_slot *found = NULL;
    while (maps && !found && fgets(line, sizeof(line), maps)) {
        if (!strstr(line, "moiety-counters")) {
            continue;
        }
        struct mw_counters *counters = (void *)(uintptr_t)strtoull(line, NULL, 16);
        for (unsigned i = 0; i < MW_SLOTS_MAX && !found; i++) {
            found = counters->slots[i].tid == (uint32_t)syscall(SYS_gettid) ? &counters->slots[i]
                                                                            : NULL;
        }
    }
    if (maps) {
        fclose(maps);
    }
    return found;
}

/* As before the first call, whatever the last one did. */
static int have_context(void)
{
    CUcontext context;
    CUresult result = cuDevicePrimaryCtxRetain(&context, 0);
    return result ? (int)result : (int)cuCtxSetCurrent(context);
}

static void capture(bool begins)
{
    CUgraph graph = NULL;
    if (begins) {
        cuStreamBeginCapture_v2(CU_STREAM_PER_THREAD, CU_STREAM_CAPTURE_MODE_RELAXED);
    } else if (cuStreamEndCapture(CU_STREAM_PER_THREAD, &graph) == CUDA_SUCCESS && graph) {
        cuGraphDestroy(graph);
    }
}

static void look_at(struct mw_slot *slot, const char *name, any_call call)
{
    if (sigsetjmp(before_call, 1) == 0) {
        WITH_ZEROS(call);
        if (slot->depth || slot->blocked) {
            printf("%s: depth %d, blocked %d\n", name, (int)slot->depth, (int)slot->blocked);
        }
    } else {
        printf("%s: crashed\n", name);
    }
    slot->depth = slot->blocked = 0;
}

int main(void)
{
    size_t count = sizeof(calls) / sizeof(calls[0]);
    CUdeviceptr at;
    struct sigaction action = {.sa_handler = crashed, .sa_flags = SA_NODEFER};
    if (cuInit(0) || have_context() || cuMemAlloc_v2(&at, 4096) || cuMemsetD8_v2(at, 0, 4096)) {
        return 1;
    }
    struct mw_slot *slot = own_slot();
    if (!slot) {
        return 2;
    }
    sigaction(SIGSEGV, &action, NULL);
    uint64_t before = slot->passes;
    for (size_t i = 0; i < 2 * count; i++) {
        int result = have_context();
        if (result) {
            printf("%s: there is no context: error %d\n", calls[i % count].name, result);
            return 3;
        }
        capture(i >= count);
        look_at(slot, calls[i % count].name, calls[i % count].call);
        capture(false);
    }
    printf("%zu calls, %s\n", count,
           slot->passes > before + 400 ? "of which many are gated" : "not gated");
    fflush(stdout);
    _exit(0); /* what was called may have left anything behind */
}
