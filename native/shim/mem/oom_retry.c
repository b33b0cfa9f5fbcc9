#include "shim/mem/oom_retry.h"

#include "shim/agent/client_report.h"
#include "shim/agent/socket.h"
#include "shim/base/driver.h"
#include "shim/base/message.h"
#include "shim/gate/gate.h"

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
    static bool told;
    if (attempt >= OOM_ATTEMPTS || !may_wait()) {
        return false;
    }
    struct agent_request request = {
        .message.alloc = {.gpu = device->gpu, .bytes = guesses[attempt]}};
    agent_ask(&request, sizeof(request.message.alloc), MW_DRIVER_OOM);
    if (request.message.header.type == MW_ALLOC_REPLY) {
        return true;
    }
    if (!told) {
        told = true; /* programs try again and again */
        message_print(NULL, "%s", request.message.refused.text);
    }
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
