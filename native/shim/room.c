#include "shim/room.h"

#include "shim/control.h"
#include "shim/gate.h"
#include "shim/link.h"
#include "shim/real.h"
#include "shim/say.h"

/* The driver does not tell how much it lacked. Code of one program is mostly some megabytes; a
 * large library, or a context on a big card, is some hundred. */
static const uint64_t guesses[ROOM_ATTEMPTS] = {64ull << 20, 512ull << 20};

static bool may_wait(void)
{
    const struct mw_slot *slot = gate_slot;
    bool inside = slot && __atomic_load_n(&slot->depth, __ATOMIC_RELAXED) != 0;
    return control_is_active() && !inside;
}

bool room_made_on(struct device *device, unsigned attempt)
{
    static bool told;
    if (attempt >= ROOM_ATTEMPTS || !may_wait()) {
        return false;
    }
    struct link_request request = {
        .message.alloc = {.gpu = device->gpu, .bytes = guesses[attempt]}};
    link_ask(&request, sizeof(request.message.alloc), MW_DRIVER_OOM);
    if (request.message.header.type == MW_ALLOC_REPLY) {
        return true;
    }
    if (!told) {
        told = true; /* programs try again and again */
        say(NULL, "%s", request.message.refused.text);
    }
    return false;
}

bool room_made(unsigned attempt)
{
    struct device *device;
    return may_wait() && device_current(&device) == CUDA_SUCCESS && room_made_on(device, attempt);
}

void room_used(void)
{
    struct device *device;
    if (control_is_active() && device_current(&device) == CUDA_SUCCESS) {
        link_amount(MW_CONTEXT, device->gpu, 0);
    }
}
