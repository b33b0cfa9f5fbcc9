#include "shim/mem/oom_retry.h"

#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "shim/agent/client_report.h"
#include "shim/agent/socket.h"
#include "shim/base/message.h"
#include "shim/gate/gate.h"
#include "shim/mem/accounting.h"
#include "shim/mem/device_contexts.h"
#include "shim/mem/extent.h"
#include "shim/mem/zero_fill.h"

/* How long an allocation that the agent admitted waits for memory that the driver still counts as
 * used: that of a process killed just now, say. On a busy machine that takes seconds, and a program
 * whose allocation fails gives up for good. */
#define PATIENCE_NS 15000000000ull
/* Memory of a killed program comes back by itself; memory that drivers took for code does not. */
#define ASK_AFTER_NS 500000000ull

/* The driver does not tell how much it lacked. Code of one program is mostly some megabytes; a
 * large library, or a context on a big card, is some hundred. */
static const uint64_t guesses[OOM_ATTEMPTS] = {64ull << 20, 512ull << 20};

static bool may_wait(void)
{
    const struct mw_slot *slot = gate_slot;
    bool inside = slot && __atomic_load_n(&slot->depth, __ATOMIC_RELAXED) != 0;
    return client_is_active() && !inside;
}

bool oom_retry_on(struct device *device, unsigned attempt)
{
    static atomic_bool said;
    if (attempt >= OOM_ATTEMPTS || !may_wait()) {
        return false;
    }
    struct agent_request request = {
        .message.alloc = {.gpu = device->gpu, .bytes = guesses[attempt]}};
    agent_ask(&request, sizeof(request.message.alloc), MW_DRIVER_OOM);
    if (request.message.header.type == MW_ALLOC_REPLY) {
        return true;
    }
    message_once(&said, NULL, "%s", request.message.refused.text);
    return false;
}

bool oom_retry(unsigned attempt)
{
    struct device *device;
    return may_wait() && device_current(&device) == CUDA_SUCCESS && oom_retry_on(device, attempt);
}

void oom_retry_done(void)
{
    struct device *device;
    if (client_is_active() && device_current(&device) == CUDA_SUCCESS) {
        agent_amount(MW_CONTEXT, device->gpu, 0);
    }
}

/* ---- memory that the agent admitted ---- */

static CUresult gave_up(const struct device *device)
{
    static atomic_bool said;
    message_once(&said, "nvidia-smi lists the processes on the GPU",
                 "GPU %u is full: the driver refused memory that moiety had admitted, because "
                 "another process uses the GPU outside moiety",
                 device->gpu);
    return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult oom_retry_map(struct extent *extent)
{
    uint64_t tried_ns = 0; /* without what it stood at the gate: others had the memory then */
    unsigned asked = 0;
    for (;;) {
        struct mw_slot *slot = gate_enter();
        uint64_t began = now_ns();
        CUresult result = extent_map_in_steps(extent);
        if (result == CUDA_SUCCESS) {
            zero_fill(extent);
        }
        gate_leave(slot);
        if (result != CUDA_ERROR_OUT_OF_MEMORY) {
            return result;
        }
        if (tried_ns > PATIENCE_NS) {
            return gave_up(extent->device);
        }
        credit_drop_cached(extent->device);
        struct timespec pause = {0, 2000000};
        syscall(SYS_nanosleep, &pause,
                NULL); /* not nanosleep(3): other threads may wait for this one's memory */
        tried_ns += now_ns() - began;
        if (tried_ns > (asked + 1) * ASK_AFTER_NS) {
            oom_retry_on(extent->device, asked++); /* the driver may have taken it for itself */
        }
    }
}
